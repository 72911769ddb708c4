"""Ranks: the number of a pod among all pods of one scaling-group replica (GROVE_PCSG_POD_INDEX)."""

from dataclasses import dataclass

from grove.api import labels
from grove.api.podclique import PodClique
from grove.plan.podclique import clique_of
from grove.plan.template import Template


@dataclass(frozen=True, slots=True)
class RankOffset:
    """Where a clique's pods stand among all pods of one scaling-group replica.

    Ranks come from the template's counts: the cliques laid end to end in cliqueNames order. Pods beyond a clique's
    template count follow after all template pods, interleaved by clique, so no rank is given twice and a resize moves
    nobody.
    """

    start: int
    """template pods of the cliques before this one"""
    count: int
    """template pods of this clique"""
    total: int
    """template pods of all cliques"""
    position: int
    """position of this clique in cliqueNames"""
    cliques: int
    """number of cliques in the group"""
    template_hash: str = ""
    """hash of the templates of all cliques in the group"""

    def rank(self, index: int) -> int:
        """Rank of the pod at `index` of this clique."""
        if index < self.count:
            return self.start + index
        return self.total + (index - self.count) * self.cliques + self.position


def rank_offset(podclique: PodClique, template: Template | None) -> RankOffset | None:
    """The offset of a PodClique of a scaling group; None for a standalone one."""
    if template is None or labels.SCALING_GROUP not in podclique.labels:
        return None
    clique = clique_of(podclique, template)
    group = next((name for name, config in template.groups.items() if clique in config.clique_names), None)
    if clique is None or group is None:
        return None
    members = template.members(group)
    counts = [member.spec.replicas or 0 for member in members]
    position = [member.name for member in members].index(clique)
    return RankOffset(
        sum(counts[:position]),
        counts[position],
        sum(counts),
        position,
        len(members),
        template.group_template_hashes[clique],
    )
