"""A whole PodCliqueSet worked out on paper: every object the operator would make, with no cluster at hand."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from grove.api.podclique import PodClique
from grove.api.podcliquescalinggroup import PodCliqueScalingGroup
from grove.plan.init_container import Hold, InitContainer
from grove.plan.kinds import AUTOSCALER, PODCLIQUE, PODCLIQUESCALINGGROUP, SERVICE
from grove.plan.observed import PodView
from grove.plan.podclique import wanted_pods
from grove.plan.pods import plan_pods
from grove.plan.ranks import rank_offset
from grove.plan.release import Readiness, lacking_parents, waiting_for
from grove.plan.replica import ReplicaSnapshot, plan_children, plan_gangs, view_of
from grove.plan.scalinggroup import look_at_all, plan_members
from grove.plan.template import Template
from grove.plan.topology import NOWHERE, Topology
from grove.runtime.resources import ResourceType
from grove.runtime.writes import Create, Write


@dataclass(frozen=True, slots=True)
class Replica:
    """Everything one replica of a set consists of, as wire objects in the order of the template.

    Objects carry no uid: owner references name their owner with an empty uid, and pod names, whose suffix depends on
    uids, are those of a set that never existed.
    """

    index: int
    services: tuple[dict[str, Any], ...]
    scaling_groups: tuple[dict[str, Any], ...]
    podcliques: tuple[dict[str, Any], ...]
    autoscalers: tuple[dict[str, Any], ...]
    podgangs: tuple[dict[str, Any], ...]
    pods: tuple[dict[str, Any], ...]
    scheduler_objects: tuple[dict[str, Any], ...] = ()
    """what the scheduler's back end makes of the gangs"""

    @property
    def objects(self) -> tuple[dict[str, Any], ...]:
        """All objects, owners before what they own."""
        parents = (*self.services, *self.scaling_groups, *self.podcliques)
        return (*parents, *self.autoscalers, *self.podgangs, *self.scheduler_objects, *self.pods)


def expand(template: Template, topology: Topology = NOWHERE) -> list[Replica]:
    """Work out every replica by running the same plans as the operator, against what they made before.

    `topology` is what the set's constraints mean where it would run.
    """
    return [_replica(template, index, topology) for index in range(template.replicas)]


def _replica(template: Template, index: int, topology: Topology) -> Replica:
    made = _created(plan_children(template, index, ReplicaSnapshot()))
    groups = {obj["metadata"]["name"]: PodCliqueScalingGroup.from_wire(obj) for obj in made[PODCLIQUESCALINGGROUP]}
    podcliques = list(made[PODCLIQUE])
    for group in groups.values():
        podcliques += _created(plan_members(group, template, look_at_all(group, template, {}, {}), ()))[PODCLIQUE]
    live = {obj["metadata"]["name"]: _with_uid(obj) for obj in podcliques}
    readiness = Readiness(template, index, view_of(template, index, ReplicaSnapshot(live, groups)))
    pods = [pod for pclq in live.values() for pod in _pods(pclq, template, readiness)]
    by_owner: dict[str, list[PodView]] = {}
    for pod in pods:
        view = PodView.from_wire(pod)
        by_owner.setdefault(view.owner_uid, []).append(view)
    snapshot = ReplicaSnapshot(podcliques=live, scaling_groups=groups, pods=by_owner)
    gangs = plan_gangs(template, index, snapshot, hurry=lambda _: True, now="", topology=topology)
    podgangs = [write.body for plan in gangs.values() for write in plan.spec if isinstance(write, Create)]
    return Replica(
        index,
        services=tuple(made[SERVICE]),
        scaling_groups=tuple(made[PODCLIQUESCALINGGROUP]),
        podcliques=tuple(podcliques),
        autoscalers=tuple(made[AUTOSCALER]),
        podgangs=tuple(podgangs),
        pods=tuple(_without_uid(pod) for pod in pods),
    )


def _created(writes: tuple[Write, ...]) -> Mapping[ResourceType, list[dict[str, Any]]]:
    result: dict[ResourceType, list[dict[str, Any]]] = {
        SERVICE: [], PODCLIQUE: [], PODCLIQUESCALINGGROUP: [], AUTOSCALER: []
    }  # fmt: skip
    for write in writes:
        assert isinstance(write, Create), "nothing exists, so there is nothing to patch or delete"
        result[write.resource].append(write.body)
    return result


def _pods(podclique: PodClique, template: Template, readiness: Readiness) -> list[dict[str, Any]]:
    lacking = lacking_parents(podclique, template, readiness)
    hold = None if lacking is None else Hold(InitContainer(), waiting_for(lacking))
    ranks, burst = rank_offset(podclique, template), wanted_pods(podclique)
    plan = plan_pods(podclique, (), last_occupants={}, rank_offset=ranks, now=0.0, burst=burst, hold=hold)
    return [write.body for write in plan.writes if isinstance(write, Create)]


def _with_uid(obj: dict[str, Any]) -> PodClique:
    # The name stands in for the uid that the API server would give, so that pods find their owner.
    metadata = {**obj["metadata"], "uid": obj["metadata"]["name"]}
    return PodClique.from_wire({**obj, "metadata": metadata})


def _without_uid(pod: dict[str, Any]) -> dict[str, Any]:
    owners = [{**owner, "uid": ""} for owner in pod["metadata"]["ownerReferences"]]
    return {**pod, "metadata": {**pod["metadata"], "ownerReferences": owners}}
