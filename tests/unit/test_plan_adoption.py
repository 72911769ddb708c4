"""Objects of the Go operator get our hash in place: nothing counts as stale that runs what the template asks for."""

from typing import Any

import pytest

from grove.api import labels
from grove.api.podclique import PodClique
from grove.api.podcliquescalinggroup import PodCliqueScalingGroup
from grove.plan import children
from grove.plan.adoption import adopt, adopted_hash, translated
from grove.plan.observed import PodView
from grove.plan.podclique import ensure_podclique
from grove.plan.pods import build_pod, plan_pods
from grove.runtime.writes import Patch
from tests.fake_api.objects import json_patch
from tests.unit.support import Object, clique, group, pod_set, stored, template

THEIRS = "57bd44b6dbd69587cf76"
"""A hash as the Go operator writes it."""


def desired(image: str = "example.com/image:1") -> Object:
    made = template(pod_set(clique("a", 2, image=image, labels={"app": "x"}, annotations={"note": "y"})))
    return children.standalone_podclique(made, 0, made.cliques["a"])


def theirs(obj: Object, *, status_hash: str = THEIRS) -> PodClique:
    """`obj` as the Go operator would have left it."""
    tags = {**obj["metadata"]["labels"], labels.POD_TEMPLATE_HASH: THEIRS}
    metadata = {**obj["metadata"], "labels": tags, "annotations": {"note": "y"}, "uid": "u", "resourceVersion": "7"}
    status = {"currentPodTemplateHash": status_hash, "updatedReplicas": 2, "replicas": 2}
    return PodClique.from_wire({**obj, "metadata": metadata, "status": status})


def patched(podclique: PodClique, patch: Patch) -> PodClique:
    assert isinstance(patch.body, dict)
    metadata = {**podclique.wire["metadata"]}
    for key in ("labels", "annotations"):
        metadata[key] = {**metadata[key], **patch.body["metadata"].get(key, {})}
    return PodClique.from_wire({**podclique.wire, "metadata": metadata})


def test_clique_and_pods_get_our_hash_and_no_pod_is_made_or_deleted() -> None:
    want = desired()
    live = theirs(want)
    ours = want["metadata"]["labels"][labels.POD_TEMPLATE_HASH]
    (write,) = ensure_podclique(live, want)
    assert isinstance(write, Patch)
    assert write.body == {
        "metadata": {
            "labels": {labels.POD_TEMPLATE_HASH: ours},
            "annotations": {
                labels.ADOPTED_TEMPLATE_HASH: f"{THEIRS}={ours}",
                labels.TEMPLATE_REPLICAS: "2",
            },
        }
    }
    adopted = patched(live, write)
    pods = [PodView.from_wire(stored(build_pod(live, index, f"web-0-a-{index}", None))) for index in range(2)]
    assert {pod.template_hash for pod in pods} == {THEIRS}
    plan = plan_pods(adopted, pods, last_occupants={}, rank_offset=None, now=0.0)
    assert [(w.name, w.body) for w in plan.writes if isinstance(w, Patch)] == [
        (pod.name, {"metadata": {"labels": {labels.POD_TEMPLATE_HASH: ours}}}) for pod in pods
    ]
    assert len(plan.writes) == len(pods)
    assert ensure_podclique(adopted, want) == []


def test_a_pod_of_another_hash_stays_stale() -> None:
    live = theirs(desired())
    (write,) = ensure_podclique(live, desired())
    assert isinstance(write, Patch)
    assert translated(patched(live, write), "someotherhash") == "someotherhash"
    assert translated(live, THEIRS) == THEIRS


@pytest.mark.parametrize(
    "live",
    [theirs(desired("example.com/image:2")), theirs(desired(), status_hash="v1-0000000000000000")],
    ids=["another template", "an update was under way"],
)
def test_nothing_is_adopted_when_the_pods_may_run_something_else(live: PodClique) -> None:
    assert adopted_hash(live, desired()) is None


def test_the_record_stays_through_later_templates() -> None:
    live = theirs(desired())
    (write,) = ensure_podclique(live, desired())
    assert isinstance(write, Patch)
    adopted = patched(live, write)
    record = adopted.annotations[labels.ADOPTED_TEMPLATE_HASH]
    assert adopted_hash(adopted, desired("example.com/image:3")) == record
    assert labels.ADOPTED_TEMPLATE_HASH not in build_pod(adopted, 0, "p", None)["metadata"]["annotations"]


def test_members_are_compared_without_the_variables_that_groups_add() -> None:
    made = template(pod_set(clique("b", 1), groups=[group("g", ["b"])]))
    scaling_group = PodCliqueScalingGroup.from_wire(stored(children.scaling_group(made, 0, made.groups["g"])))
    want = children.member_podclique(made, "g", scaling_group, 0, 0, made.cliques["b"])
    spec: dict[str, Any] = want["spec"]["podSpec"]
    fewer = [env for env in spec["containers"][0]["env"] if env["name"] != "GROVE_PCSG_POD_INDEX"]
    assert len(fewer) == 3
    containers = [{**spec["containers"][0], "env": fewer}]
    live = theirs({**want, "spec": {**want["spec"], "podSpec": {**spec, "containers": containers}}})
    live = PodClique.from_wire({**live.wire, "metadata": {**live.wire["metadata"], "annotations": {}}})
    ours = want["metadata"]["labels"][labels.POD_TEMPLATE_HASH]
    assert adopted_hash(live, want) == f"{THEIRS}={ours}"


# Orphaned pods


def test_an_orphaned_pod_gets_the_podclique_as_controller_and_keeps_its_other_owners() -> None:
    podclique = PodClique.from_wire(stored(desired()))
    lone, owned = stored(build_pod(podclique, 0, "x", None)), stored(build_pod(podclique, 1, "y", None))
    (reference,) = lone["metadata"].pop("ownerReferences")
    owned["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "u"}]
    for wire in (lone, owned):
        (write,) = adopt(podclique, [PodView.from_wire(wire)])
        assert isinstance(write, Patch)
        assert isinstance(write.body, list)
        after = json_patch(wire, write.body)["metadata"]["ownerReferences"]
        assert after == [*wire["metadata"].get("ownerReferences", ()), reference]
    lone["metadata"]["deletionTimestamp"] = "2026-09-01T00:00:00Z"
    assert adopt(podclique, [PodView.from_wire(lone)]) == []
