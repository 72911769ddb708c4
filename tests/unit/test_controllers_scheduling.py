"""What a set is told about its ClusterTopologyBinding while that is not seen yet."""

import copy
import time

import pytest

from grove.api.times import rfc3339
from grove.controllers.scheduling import Scheduling
from grove.controllers.world import World
from grove.plan.kinds import CLUSTERTOPOLOGYBINDING, PODCLIQUESET
from grove.plan.template import Template
from grove.schedulers import enable
from tests.topology_cases import BINDING, pack
from tests.unit.support import Object, clique, pod_set, stored


def known(world: World, obj: Object, age: float) -> Template:
    """The set once it is in the cache, so many seconds after it was made."""
    world.take(PODCLIQUESET, stored(obj, creationTimestamp=rfc3339(time.time() - age)))
    template = world.sets.get("default", obj["metadata"]["name"])
    assert template is not None
    return template


@pytest.mark.parametrize(
    ("aware", "constraint", "age", "awaited"),
    [
        (True, pack("rack"), 0, True),
        (True, pack("rack"), -3600, True),  # the API server's clock is ahead
        (True, pack("rack"), 10, False),
        (True, {}, 0, False),
        (False, pack("rack"), 0, False),
    ],
)
def test_a_new_set_waits_a_moment_for_its_binding(aware: bool, constraint: Object, age: float, awaited: bool) -> None:
    world = World(topology_aware=aware)
    scheduling = Scheduling(enable(), world)
    template = known(world, pod_set(clique("a") | constraint), age)
    seconds = scheduling.awaits_levels(template)
    assert (seconds is not None) == awaited
    assert 0 < (seconds or 1) <= 3
    if aware:
        world.take(CLUSTERTOPOLOGYBINDING, stored(copy.deepcopy(BINDING)))
        assert scheduling.awaits_levels(template) is None
