"""`grove crds`: write the CustomResourceDefinitions, or check that the files are up to date."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path

import click

from grove.api import crd, kubernetes
from grove.api.openapi import structural
from grove.cli.generated import check_option, deliver_files


@click.command()
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("crds"),
    show_default=True,
    metavar="DIR",
    help="The folder to write to, or to check.",
)
@check_option
@click.option(
    "--refresh-kubernetes-schemas",
    is_flag=True,
    help="First fetch the schemas of Kubernetes' own types, with kubectl. For a new version of Kubernetes.",
)
@click.option(
    "--apply", is_flag=True, help="Write no files; install or upgrade them in a cluster, by server-side apply."
)
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path, exists=True),
    help="The cluster to fetch schemas from, or to apply to. Default to apply to: as of `grove operator`.",
)
def crds(output: Path, check: bool, refresh_kubernetes_schemas: bool, apply: bool, kubeconfig: Path | None) -> None:
    """Write Grove's CustomResourceDefinitions to DIR, one file each, for `kubectl apply -f DIR`."""
    if apply:
        _apply(kubeconfig)
        return
    if refresh_kubernetes_schemas:
        _refresh(kubeconfig)
    files = {output / name: text for name, text in crd.manifests().items()}
    deliver_files(files, check=check, strangers=sorted({*output.glob("*.yaml")} - files.keys()))


def _apply(kubeconfig: Path | None) -> None:
    import aiohttp

    from grove.controllers.crds import apply_crds
    from grove.runtime.credentials import LoginError
    from grove.runtime.errors import ApiError

    try:
        for name in asyncio.run(apply_crds(kubeconfig)):
            click.echo(f"{name}: applied")
    except (LoginError, ApiError, aiohttp.ClientError, OSError) as exc:
        raise click.ClickException(f"cannot apply the CustomResourceDefinitions: {exc}") from exc


def _refresh(kubeconfig: Path | None) -> None:
    version = _get("/version", kubeconfig)["gitVersion"]
    for name, source in kubernetes.SOURCES.items():
        schema = structural(_get(source.path, kubeconfig), source.schema)
        path = Path(kubernetes.__path__[0]) / f"{name}.json"
        path.write_text(kubernetes.dump(version, schema), encoding="utf-8")
        click.echo(f"{path}: from Kubernetes {version}")


def _get(path: str, kubeconfig: Path | None) -> dict[str, str]:
    command = ["kubectl", *(["--kubeconfig", str(kubeconfig)] if kubeconfig else []), "get", "--raw", path]
    try:
        result = subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError as exc:
        raise click.ClickException("kubectl is needed to fetch schemas, and is not on the PATH") from exc
    except subprocess.CalledProcessError as exc:
        raise click.ClickException(f"could not fetch {path}: {exc.stderr.strip()}") from exc
    document: dict[str, str] = json.loads(result.stdout)
    return document
