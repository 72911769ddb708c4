"""Every case of admission through a real API server, with kubectl: the answer is that of the rules, word for word."""

import copy
import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from grove.cluster import binaries
from tests.admission_cases import CASES, Case, Obj
from tests.cluster.harness import ROOT, Harness, running_cluster
from tests.cluster.objects import store
from tests.cluster.webhooks import LocalWebhooks

NAMESPACE = "ns"
"""The namespace of the cases' objects."""
_DENIED = re.compile(r'admission webhook "[a-z.]+" denied the request: (.*)$', re.DOTALL)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Harness, LocalWebhooks]]:
    """A cluster of its own, since webhooks are for a whole cluster."""
    with running_cluster(tmp_path_factory.mktemp("cases") / "cluster", nodes=1) as cluster:
        cluster.kubectl("apply", "-f", ROOT / "crds")
        cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
        cluster.api("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        webhooks = LocalWebhooks()
        with webhooks.serving(cluster):
            yield cluster, webhooks


def path(obj: Obj, name: str = "") -> str:
    plural = f"{obj['kind'].lower()}s"
    scope = "" if obj["kind"] == "ClusterTopologyBinding" else f"/namespaces/{NAMESPACE}"
    return f"/apis/{obj['apiVersion']}{scope}/{plural}" + (f"/{name}" if name else "")


def kubectl(cluster: Harness, verb: str, obj: Any) -> tuple[bool, str, list[str]]:
    """Whether a write (that leaves no trace) is accepted, why not, and the warnings."""
    command = [str(binaries.find_or_build()["kubectl"]), "--kubeconfig", str(cluster.kubeconfig)]
    options = [verb, "--dry-run=server", "--validate=warn", "-f", "-"]
    done = subprocess.run([*command, *options], input=json.dumps(obj), capture_output=True, text=True, check=False)
    warnings = re.findall(r"^Warning: (.*)$", done.stderr, re.MULTILINE)
    return done.returncode == 0, re.sub(r"^Warning: .*\n", "", done.stderr, flags=re.MULTILINE).strip(), warnings


@contextmanager
def stored(cluster: Harness, webhooks: LocalWebhooks, obj: Obj) -> Iterator[Obj]:
    """An object that was stored by whatever rules, as it is stored."""
    webhooks.asleep = True
    found = store(cluster, path(obj), copy.deepcopy(obj))
    webhooks.asleep = False
    try:
        yield found
    finally:
        cluster.api("DELETE", path(obj, obj["metadata"]["name"]))


def written(cluster: Harness, webhooks: LocalWebhooks, case: Case) -> tuple[bool, str, list[str]]:
    """What a case's create or update comes to."""
    if case.old is None:
        return kubectl(cluster, "create", case.new)
    with stored(cluster, webhooks, case.old) as old:
        version = old["metadata"]["resourceVersion"]
        new = {**case.new, "metadata": {**case.new["metadata"], "resourceVersion": version}}
        return kubectl(cluster, "replace", new)


def as_shown(warning: str) -> str:
    """A warning as kubectl shows it. Of unknown fields the API server warns itself; webhooks never see them."""
    path, unknown, _ = warning.partition(": unknown field")
    if unknown:
        return f'unknown field "{path}"'
    return warning if len(warning) <= 250 else f"{warning[:249]}…"


def can_be_sent(case: Case) -> bool:
    """Whether kubectl and the API server let an object through at all: it has a kind, and a namespace that exists."""
    return "kind" in case.new and case.new["metadata"].get("namespace", NAMESPACE) == NAMESPACE


@pytest.mark.parametrize("case", [case for case in CASES if can_be_sent(case)], ids=lambda case: case.name)
def test_the_answer_reaches_the_user(stage: tuple[Harness, LocalWebhooks], case: Case) -> None:
    cluster, webhooks = stage
    webhooks.facts = case.facts
    accepted, refusal, warnings = written(cluster, webhooks, case)
    schema = re.search(r"is invalid:\s+(?:\* )?([^:\s]+):", refusal)
    if case.schema or (schema and not _DENIED.search(refusal)):
        # The CustomResourceDefinition comes first, and sees more with the defaults in place than it would alone.
        assert not accepted
        assert schema
        assert case.schema or any(error.startswith(schema[1]) for error in case.errors)
        return
    assert accepted == (not case.errors), refusal
    assert sorted(warnings) == sorted(map(as_shown, case.warnings))
    if case.errors:
        denied = _DENIED.search(refusal)
        assert denied, refusal
        lines = list(case.errors)
        assert denied[1] == (lines[0] if len(lines) == 1 else f"[{', '.join(lines)}]")
