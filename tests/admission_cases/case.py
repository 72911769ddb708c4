"""What a case is, and the small objects that cases are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from grove.admission import Facts

Obj = dict[str, Any]
CLIQUES = "spec.template.cliques"
GROUPS = "spec.template.podCliqueScalingGroups"
POD = f"{CLIQUES}[0].spec.podSpec"
NOTHING_KNOWN = Facts()


@dataclass(frozen=True)
class Case:
    """An object that is created, or that `old` is updated to, and the answer."""

    name: str
    new: Obj
    errors: Sequence[str] = ()
    """the lines of the webhook's answer, whole and in order; none when the object is accepted"""
    warnings: Sequence[str] = ()
    old: Obj | None = None
    facts: Facts = NOTHING_KNOWN
    schema: str = ""
    """part of what the API server says by itself, where the CustomResourceDefinition refuses the object too"""
    legacy: bool = False
    """whether `old` can only have been stored before the rules were there"""


def warned(name: str, new: Obj, warnings: Sequence[str], **fields: Any) -> Case:
    """An object that is accepted with warnings."""
    return Case(name, new, warnings=warnings, **fields)


def clique(name: str = "a", **spec: Any) -> Obj:
    """A clique of one busybox pod; the fields go to its spec."""
    return {"name": name, "spec": {"podSpec": {"containers": [{"name": "main", "image": "busybox"}]}, **spec}}


def group(name: str = "g", *members: str, **config: Any) -> Obj:
    """A scaling group."""
    return {"name": name, "cliqueNames": list(members), **config}


def a_set(*cliques: Obj, groups: list[Obj] | None = None, name: str = "s", replicas: int = 1, **template: Any) -> Obj:
    """A set of the cliques given, by default one called `a`; the fields go to its template."""
    template["cliques"] = list(cliques) or [clique()]
    if groups is not None:
        template["podCliqueScalingGroups"] = groups
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"replicas": replicas, "template": template},
    }


def explicit(*cliques: Obj) -> Obj:
    """A set whose cliques start as startsAfter says."""
    return a_set(*cliques, cliqueStartupType="CliqueStartupTypeExplicit")


def with_metadata(obj: Obj | None = None, **metadata: Any) -> Obj:
    """A set (by default of one clique) with fields of its metadata."""
    obj = obj or a_set()
    return {**obj, "metadata": {**obj["metadata"], **metadata}}


def with_pod(**pod_spec: Any) -> Obj:
    """A set of one clique with fields of its podSpec."""
    return a_set(clique(podSpec={"containers": [{"name": "main"}], **pod_spec}))


def with_env(*names: Any) -> Obj:
    """A set of one clique whose container has variables of these names."""
    env = [{"name": name, "value": "x"} for name in names]
    return with_pod(containers=[{"name": "main", "env": env}])
