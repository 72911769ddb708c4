"""`grove plan`: what PodCliqueSets would become, worked out without a cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import click
import orjson

from grove.admission.defaults import default_podcliqueset
from grove.admission.facts import UNKNOWN, Facts
from grove.admission.fields import Field, FieldError, constraints
from grove.admission.validation import validate_binding, validate_podcliqueset
from grove.api.clustertopologybinding import ClusterTopologyBinding
from grove.api.labels import API_VERSION
from grove.api.podcliqueset import PodCliqueSet
from grove.cli.manifests import Manifest, ManifestError, read_manifests, write_yaml
from grove.cli.output import say
from grove.cli.plan_scheduler import findings, scheduled, with_scheduler
from grove.cli.plan_tree import Overview, total
from grove.plan.expand import expand
from grove.plan.template import Template
from grove.plan.topology import binding_name, topology_of
from grove.schedulers import installed

MAX_PODS: Final = 150_000
"""Kubernetes supports this many pods in a cluster; a set that asks for more is a typing error."""


@click.command()
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    required=True,
    metavar="FILE",
    help="A file with PodCliqueSets, and the ClusterTopologyBindings that their topology constraints speak of, YAML or "
    "JSON; - for standard input. May be given several times.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["tree", "yaml", "json"]),
    default="tree",
    show_default=True,
    help="An overview, or the objects themselves.",
)
@click.option(
    "-n", "--namespace", default="default", show_default=True, help="The namespace of sets that do not name one."
)
@click.option(
    "--scheduler",
    default="",
    metavar="NAME",
    callback=lambda _context, _parameter, name: _known_scheduler(name),
    help="Show what this scheduler would get, as if the pods named it: kai-scheduler, volcano, default-scheduler or "
    "that of another installed back end. Without it, the one that the pods name.",
)
@click.option(
    "--live", is_flag=True, help="Show what the sets would change in a cluster: restarts and their order, scaling."
)
@click.option(
    "--kubeconfig",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="With --live: kubeconfig of the cluster. Default: $KUBECONFIG, the pod's service account, ~/.kube/config.",
)
def plan(
    files: tuple[str, ...], output: str, namespace: str, scheduler: str, live: bool, kubeconfig: Path | None
) -> None:
    """Show everything that PodCliqueSets would become, without a cluster.

    Prints every Service, PodClique, scaling group, autoscaler, gang and pod the operator would make, and the objects
    of the scheduler that the pods name, as an overview or as objects. Checks the sets first, as the API server would,
    and lists all problems at once with the paths of their fields. Other objects in the files are passed over.

    With --live sets that are in the cluster are compared with what runs there; nothing is written.

    Exit code 0 when all sets are well (there may be warnings), 1 when a file or the cluster cannot be read or a set has
    errors, 2 for wrong usage.
    """
    candidates, bindings, failed = _read(files, namespace, scheduler)
    if live:
        candidates, trouble = _compare(candidates, kubeconfig)
        for candidate in candidates if output == "tree" else ():
            say(f"{candidate.title} is not in the cluster yet")
        failed |= trouble
        if not candidates:
            sys.exit(failed)
    for candidate in candidates:
        failed |= not _report(candidate)
    if not candidates and not failed:
        say("error: there is no PodCliqueSet in the input", err=True)
    if failed or not candidates:
        sys.exit(1)
    templates = [Template(PodCliqueSet.from_wire(candidate.obj)) for candidate in candidates]
    levels = [topology_of(template, bindings.get(binding_name(template))) for template in templates]
    if output == "tree":
        overviews = [Overview.of(template, topology) for template, topology in zip(templates, levels, strict=True)]
        say("\n".join([*(line for overview in overviews for line in overview.lines()), total(overviews)]))
        return
    objects = (
        obj
        for template, topology in zip(templates, levels, strict=True)
        for replica in expand(template, topology)
        for obj in scheduled(replica, template, topology).objects
    )
    _dump(objects, output)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A PodCliqueSet with its defaults, and what is to be said about it."""

    title: str
    obj: dict[str, Any]
    errors: Sequence[str]
    warnings: Sequence[str]
    written: dict[str, Any]
    """the set without defaults"""


def _compare(candidates: list[_Candidate], kubeconfig: Path | None) -> tuple[list[_Candidate], bool]:
    """Tell what sets would change in a cluster; those that are new there, and whether something is wrong."""
    import asyncio

    from grove.cli.kube import ClusterError
    from grove.cli.plan_live import edit, lines, look

    keys = {candidate.title: _key(candidate.written) for candidate in candidates}
    try:
        found = asyncio.run(look([key for key in keys.values() if all(key)], kubeconfig))
    except ClusterError as exc:
        say(f"error: {exc}", err=True)
        return [], True
    failed = False
    for candidate in candidates:
        if (running := found.get(keys[candidate.title])) is None:
            continue
        told, errors, warnings = edit(candidate.written, running)
        failed |= not _report(replace(candidate, errors=errors, warnings=warnings))
        if told is not None:
            say("\n".join(lines(candidate.title, told)))
    return [candidate for candidate in candidates if keys[candidate.title] not in found], failed


def _key(obj: dict[str, Any]) -> tuple[str, str]:
    """Namespace and name; empty where they are no strings."""
    metadata = obj.get("metadata")
    values = [metadata.get(key) if isinstance(metadata, dict) else None for key in ("namespace", "name")]
    namespace, name = (value if isinstance(value, str) else "" for value in values)
    return namespace, name


def _read(
    files: Iterable[str], namespace: str, scheduler: str
) -> tuple[list[_Candidate], dict[str, ClusterTopologyBinding], bool]:
    """The PodCliqueSets in the files, each once, the bindings by name, and whether something could not be read."""
    sets: list[Manifest] = []
    bindings: dict[str, ClusterTopologyBinding] = {}
    failed = False
    for file in files:
        try:
            manifests = read_manifests(file)
        except ManifestError as exc:
            say(f"error: {exc}", err=True)
            failed = True
            continue
        others: list[Manifest] = []
        for manifest in manifests:
            if manifest.obj.get("kind") == PodCliqueSet.KIND:
                sets.append(manifest)
            elif manifest.obj.get("kind") != ClusterTopologyBinding.KIND:
                others.append(manifest)
            elif (binding := _binding(manifest)) is not None:
                bindings[binding.name] = binding
            else:
                failed = True
        if others:
            kinds = sorted({str(manifest.obj.get("kind") or "object without kind") for manifest in others})
            say(f"note: {others[0].source}: passed over {len(others)} of kind {', '.join(kinds)}", err=True)
    first: dict[tuple[str, str], str] = {}
    return [_check(manifest, namespace, scheduler, first, bindings) for manifest in sets], bindings, failed


def _binding(manifest: Manifest) -> ClusterTopologyBinding | None:
    """The binding of a manifest; None when something is wrong with it, which is printed."""
    result = validate_binding(manifest.obj)
    if not result.ok:
        lines = [f"  error: {error}" for error in result.errors]
        say("\n".join([_title(manifest, manifest.obj, ClusterTopologyBinding.KIND), *lines]), err=True)
        return None
    return ClusterTopologyBinding.from_wire(manifest.obj)


def _check(
    manifest: Manifest,
    namespace: str,
    scheduler: str,
    first: dict[tuple[str, str], str],
    bindings: Mapping[str, ClusterTopologyBinding],
) -> _Candidate:
    written = with_scheduler(_as_written(manifest.obj, namespace), scheduler)
    obj = default_podcliqueset(written)
    named = [constraint["topologyName"] for constraint in constraints(Field(obj))]
    unknown = [name for name in named if name.text and name.text not in bindings]
    topologies = {name: [level.domain for level in one.spec.levels] for name, one in bindings.items()}
    result = validate_podcliqueset(obj, facts=UNKNOWN if unknown else Facts(topologies=topologies))
    errors, warnings = [str(error) for error in result.errors], list(result.warnings)
    warnings += [
        str(name.warning("the input has no such ClusterTopologyBinding, levels are not shown")) for name in unknown
    ]
    if obj.get("apiVersion") != API_VERSION:
        errors.insert(0, str(Field(obj)["apiVersion"].not_supported([API_VERSION])))
    if not result.ok:
        return _Candidate(_title(manifest, obj), obj, errors, warnings, written)
    for finding in findings(obj):
        (errors if isinstance(finding, FieldError) else warnings).append(str(finding))
    template = Template(PodCliqueSet.from_wire(obj))
    key = template.namespace, template.name
    if key in first:
        errors.append(f'metadata.name: Duplicate value: "{template.name}": the set is in {first[key]} already')
    first.setdefault(key, manifest.source)
    if (pods := _pods(template)) > MAX_PODS:
        errors.append(f"spec: Forbidden: the set would have {pods} pods, Kubernetes supports {MAX_PODS} in a cluster")
    if template.replicas == 0:
        warnings.append("spec.replicas: is 0: nothing would run")
    return _Candidate(_title(manifest, obj), obj, errors, warnings, written)


def _as_written(obj: dict[str, Any], namespace: str) -> dict[str, Any]:
    """The object without what only a cluster gives it, so that one read from a cluster is planned like a new one."""
    metadata = obj.get("metadata")
    if isinstance(metadata, dict):
        kept = ("name", "generateName", "namespace", "labels", "annotations")
        metadata = {key: metadata[key] for key in kept if metadata.get(key) is not None}
        metadata = {"namespace": namespace, **metadata}
        if isinstance(metadata.get("generateName"), str) and "name" not in metadata:
            metadata["name"] = f"{metadata['generateName']}xxxxx"
        obj = {**obj, "metadata": metadata}
    return {key: value for key, value in obj.items() if key != "status"}


def _title(manifest: Manifest, obj: dict[str, Any], kind: str = PodCliqueSet.KIND) -> str:
    metadata = obj.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return f"{manifest.source}: {kind} {name or 'without a name'}"


def _pods(template: Template) -> int:
    """How many pods the set would have."""
    standalone = sum(clique.spec.replicas or 0 for clique in template.standalone)
    grouped = sum(
        group.replicas * sum(clique.spec.replicas or 0 for clique in template.members(name))
        for name, group in template.groups.items()
    )
    return template.replicas * (standalone + grouped)


def _known_scheduler(name: str) -> str:
    if name and name not in installed():
        raise click.BadParameter(f"there is no back end for {name!r}; there are {', '.join(installed())}")
    return name


def _report(candidate: _Candidate) -> bool:
    """Print what is wrong with a set; whether nothing is."""
    lines = [f"  error: {error}" for error in candidate.errors]
    lines += [f"  warning: {warning}" for warning in candidate.warnings]
    if lines:
        say("\n".join([candidate.title, *lines]), err=True)
    return not candidate.errors


def _dump(objects: Iterator[dict[str, Any]], output: str) -> None:
    if output == "yaml":
        write_yaml(objects, sys.stdout.buffer)
    else:
        result = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        sys.stdout.buffer.write(orjson.dumps(result, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
