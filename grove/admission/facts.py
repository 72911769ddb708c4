"""What rules ask beside the object: the operator's configuration, and what else the cluster holds."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from grove.api.labels import DEFAULT_SCHEDULER


@dataclass(frozen=True, slots=True)
class Facts:
    """None stands for what is not known here (`grove plan` without a cluster): nothing is refused because of it."""

    default_scheduler: str = DEFAULT_SCHEDULER
    """what a pod without schedulerName gets: the default profile"""
    schedulers: Collection[str] | None = None
    """names of the enabled scheduler profiles"""
    topology_schedulers: Collection[str] = ("kai-scheduler",)
    """schedulers that have topology objects of their own"""
    topology_aware: bool | None = None
    """topologyAwareScheduling.enabled"""
    topologies: Mapping[str, Sequence[str]] | None = None
    """the domains of each ClusterTopologyBinding by its name, broadest first; any mapping with `get` will do"""
    mnnvl: bool | None = None
    """network.autoMNNVLEnabled"""
    volcano_queues: Mapping[str, str] | None = None
    """the state of each Volcano Queue by its name, e.g. Open"""

    def enables(self, scheduler: str) -> bool:
        """Whether the operator has a profile for a scheduler, as far as is known."""
        return self.schedulers is None or scheduler in self.schedulers or scheduler == self.default_scheduler


UNKNOWN = Facts()
