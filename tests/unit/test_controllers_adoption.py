"""Taking over from the Go operator with its hashes: a set at rest restarts nothing, one in an update is finished."""

from grove.plan.kinds import POD, PODCLIQUE, PODCLIQUESCALINGGROUP, PODCLIQUESET
from tests.unit.rollouts import Rollout, changed, updating, workload
from tests.unit.support import Object

THEIRS = "555cb447d85dc9cb67d"
"""A hash as the Go operator writes it."""
HASH = "grove.io/pod-template-hash"
OURS_ALONE = "grove.io/podcliquescalinggroup-template-hash"


async def by_the_go_operator(rollout: Rollout, older: str = THEIRS) -> None:
    """Stop the operator, and leave behind the hashes that the Go operator would have written.

    `older` is what the pods carry; another one than THEIRS stands for an update that had just begun.
    """
    cluster = rollout.cluster
    await cluster.end()
    status = {"currentPodCliqueSetGenerationHash": f"gen{older}"}
    for podclique in cluster.names(PODCLIQUE):
        cluster.patch(PODCLIQUE, podclique, {"metadata": {"labels": {HASH: THEIRS}}})
        cluster.patch(PODCLIQUE, podclique, {"status": {**status, "currentPodTemplateHash": older}}, status=True)
    for group in cluster.names(PODCLIQUESCALINGGROUP):
        cluster.patch(PODCLIQUESCALINGGROUP, group, {"status": status}, status=True)
    for pod in cluster.names(POD):
        cluster.patch(POD, pod, {"metadata": {"labels": {HASH: older, OURS_ALONE: None}}})
    cluster.patch(PODCLIQUESET, "web", {"status": {"currentGenerationHash": f"gen{THEIRS}"}}, status=True)


def hashes(pods: list[Object]) -> set[str]:
    return {pod["metadata"]["labels"][HASH] for pod in pods}


@updating(workload(2))
async def test_nothing_restarts(rollout: Rollout) -> None:
    before = rollout.uids()
    await by_the_go_operator(rollout)
    rollout.cluster.start()
    await rollout.cluster.quiet()
    await rollout.cluster.check({"web": rollout.obj})
    assert rollout.uids() == before
    assert rollout.progress == {}, "to take over is no update"
    assert THEIRS not in hashes(rollout.cluster.api.objects(POD))
    assert str(rollout.status["currentGenerationHash"]).startswith("v1-")


@updating(workload(2))
async def test_the_first_update_afterwards_takes_each_slot_once(rollout: Rollout) -> None:
    await by_the_go_operator(rollout)
    rollout.cluster.start()
    await rollout.cluster.quiet()
    rollout.edit(changed(rollout.obj, "a", "b"))
    await rollout.done(20)
    assert rollout.recorder.created == dict.fromkeys(rollout.uids(), 1)


@updating(workload(2))
async def test_an_update_that_it_had_begun_is_finished(rollout: Rollout) -> None:
    await by_the_go_operator(rollout, older="4f9c8b7d6x5z4w3v2t1")
    rollout.cluster.start()
    await rollout.until(lambda: "updateEndedAt" in rollout.progress)
    await rollout.cluster.quiet()
    await rollout.check(20)
    assert rollout.recorder.created == dict.fromkeys(rollout.uids(), 1)
