"""When the operator asks to be started anew, and when that would not help."""

from tests.unit.harness import Cluster, in_cluster
from tests.unit.support import clique, pod_set


@in_cluster
async def test_a_single_watch_that_is_dead_is_a_reason_to_start_anew(cluster: Cluster) -> None:
    await cluster.up(pod_set(clique("a", 1)))
    [operator] = cluster.operators
    assert operator.controllers.problems() == []
    cluster.api.faults.reset(resource="pods", times=None)
    cluster.api.drop_watches()
    for _ in range(4):
        await cluster.rest(60)
        cluster.api.bookmark()  # of the other kinds there is news
    [problem] = operator.controllers.problems()
    assert problem.startswith("pods: no news from the API server for ")
    cluster.api.faults.clear()
    await cluster.rest(60)
    assert operator.controllers.problems() == []


@in_cluster
async def test_an_api_server_that_is_away_is_none(cluster: Cluster) -> None:
    await cluster.up(pod_set(clique("a", 1)))
    cluster.api.faults.down = True
    cluster.api.drop_watches()
    await cluster.rest(600)
    assert cluster.operators[0].controllers.problems() == []
