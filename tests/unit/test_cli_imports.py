"""What commands import: a command that people wait for does not load what only the operator needs."""

import asyncio
import sys
from pathlib import Path

import yaml

from tests.unit.commands import serving, store
from tests.unit.support import clique, pod_set

ROOT = Path(__file__).parents[2]

PROGRAM = """
import sys
from grove.cli import main

line, *unwanted = sys.argv[1:]
try:
    main(line.split(), prog_name="grove", standalone_mode=False)
except SystemExit:
    pass
print("imported:", *[name for name in unwanted if name in sys.modules], file=sys.stderr)
"""


async def imported(line: str, *unwanted: str) -> str:
    """Run a command in an interpreter of its own; its last line on standard error: what it has of `unwanted`."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, line, *unwanted, cwd=ROOT, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    output, errors = await process.communicate()
    assert output, errors.decode()
    return errors.decode().splitlines()[-1]


async def test_help_and_version_load_next_to_nothing() -> None:
    for line in ("--help", "--version"):
        assert await imported(line, "kopf", "aiohttp", "pydantic", "yaml", "asyncio") == "imported:"


async def test_a_plan_needs_no_client() -> None:
    for line in ("plan --help", "plan -f samples/simple/simple1.yaml"):
        assert await imported(line, "kopf", "aiohttp", "prometheus_client") == "imported:"


async def test_what_asks_a_cluster_needs_no_kopf(tmp_path: Path) -> None:
    file, sample = tmp_path / "kubeconfig", tmp_path / "web.yaml"
    sample.write_text(yaml.safe_dump(pod_set(clique("a", 3))))
    async with serving(file) as api:
        store(api)
        for line in (
            "tree web",
            "status web",
            "explain web",
            "rollout status web --no-watch",
            "rollout restart web",
            f"diagnose -o {tmp_path / 'bundle'}",
            f"plan --live -f {sample}",
        ):
            before = len(api.requests)
            assert await imported(f"{line} --kubeconfig {file}", "kopf") == "imported:"
            assert len(api.requests) > before, line
