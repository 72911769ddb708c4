"""What a PodCliqueSet's template means: cliques and groups by name, and their hashes, worked out once per object."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from grove.api.labels import DEFAULT_SCHEDULER
from grove.api.podcliqueset import PodCliqueScalingGroupConfig, PodCliqueSet, PodCliqueTemplateSpec
from grove.plan import hashes, startup


class Template:
    """Facts derived from one (defaulted) PodCliqueSet; immutable, so it is shared by all passes over that object."""

    def __init__(self, pcs: PodCliqueSet, default_scheduler: str = DEFAULT_SCHEDULER) -> None:
        """`default_scheduler` is what pods without schedulerName get."""
        spec = pcs.spec.template
        self.pcs = pcs
        self._default_scheduler = default_scheduler
        self.cliques: dict[str, PodCliqueTemplateSpec] = {clique.name: clique for clique in spec.cliques}
        self.groups: dict[str, PodCliqueScalingGroupConfig] = {g.name: g for g in spec.pod_clique_scaling_groups}
        self.group_of: dict[str, str] = {
            name: group.name for group in self.groups.values() for name in group.clique_names
        }
        self.standalone = tuple(clique for clique in spec.cliques if clique.name not in self.group_of)
        self.starts_after = startup.edges(spec.cliques, spec.clique_startup_type)
        self.priority_class_name = spec.priority_class_name or ""

    @property
    def namespace(self) -> str:
        return self.pcs.namespace

    @property
    def name(self) -> str:
        return self.pcs.name

    @property
    def uid(self) -> str:
        return self.pcs.uid

    @property
    def resource_version(self) -> int:
        return self.pcs.resource_version

    @property
    def replicas(self) -> int:
        """PodCliqueSet replicas wanted; none while the set is being deleted."""
        return 0 if self.pcs.deleting else self.pcs.spec.replicas

    def members(self, group: str) -> tuple[PodCliqueTemplateSpec, ...]:
        """The cliques of a scaling group, in the order of its cliqueNames."""
        return tuple(self.cliques[name] for name in self.groups[group].clique_names if name in self.cliques)

    @cached_property
    def pod_template_hashes(self) -> dict[str, str]:
        """Hash of each clique's pod template, by clique name."""
        return {
            clique.name: hashes.pod_template_hash(
                clique.labels, clique.annotations, clique.spec.pod_spec, self.priority_class_name
            )
            for clique in self.cliques.values()
        }

    @cached_property
    def group_template_hashes(self) -> dict[str, str]:
        """Hash of all pod templates of the scaling group that a clique is in, by the clique's name."""
        result: dict[str, str] = {}
        for group in self.groups:
            members = [clique.name for clique in self.members(group)]
            digest = hashes.generation_hash(self.pod_template_hashes[name] for name in members)
            result |= dict.fromkeys(members, digest)
        return result

    @cached_property
    def generation_hash(self) -> str:
        """Hash of the whole template (status.currentGenerationHash)."""
        return hashes.generation_hash(self.pod_template_hashes.values())

    @cached_property
    def scheduler_name(self) -> str:
        """The scheduler of the set's gangs: the first clique that names one decides (reference: PodGang label)."""
        named = (clique.spec.pod_spec.get("schedulerName") for clique in self.cliques.values())
        return next((name for name in named if name), self._default_scheduler)


def template_pods(template: Template, group: str) -> int:
    """Pods of one replica of a scaling group by the template's counts (GROVE_PCSG_TEMPLATE_NUM_PODS)."""
    return sum(clique.spec.replicas or 0 for clique in template.members(group))


def min_available(clique: PodCliqueTemplateSpec) -> int:
    """minAvailable of a defaulted clique; at least 1."""
    return max(clique.spec.min_available or 1, 1)


def mirrored(mapping: Mapping[str, str]) -> dict[str, str]:
    """The labels or annotations of a set that its PodGangs carry too: all but Grove's and kubectl's own."""
    return {k: v for k, v in mapping.items() if not k.startswith(("grove.io/", "kubectl.kubernetes.io/"))}


def owner_reference(api_version: str, kind: str, name: str, uid: str) -> list[dict[str, Any]]:
    """The one controlling owner reference of a child; deletion is left to the garbage collector."""
    return [
        {
            "apiVersion": api_version,
            "kind": kind,
            "name": name,
            "uid": uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
