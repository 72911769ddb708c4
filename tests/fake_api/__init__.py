"""An API server in memory for tests: the semantics of the real one, faults on demand, thousands of requests per
second.
"""

from tests.fake_api.faults import Faults, Request, RequestFault
from tests.fake_api.http import FakeApi
from tests.fake_api.objects import ApiStatus, Object
from tests.fake_api.simulator import PodSimulator
from tests.fake_api.store import PODS, Scale
from tests.fake_api.wire import Watch

__all__ = [
    "PODS",
    "ApiStatus",
    "FakeApi",
    "Faults",
    "Object",
    "PodSimulator",
    "Request",
    "RequestFault",
    "Scale",
    "Watch",
]
