"""What goes wrong, on demand: faults of requests and of watches."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from grove.runtime.resources import ResourceType
from tests.fake_api.objects import Object

Outcome = Literal["refuse", "reset", "lose"]


@dataclass
class Request:
    """One request as the server saw it; ``verb`` is Kubernetes' (get, list, watch, create, update, patch, delete)."""

    verb: str
    resource: str
    namespace: str
    name: str
    subresource: str = ""
    status: int = 0

    @property
    def is_write(self) -> bool:
        """Whether the request changes the cluster when it succeeds."""
        return self.verb in ("create", "update", "patch", "delete")


@dataclass
class RequestFault:
    """Hits the requests that match, ``skip`` of them later, ``times`` in all (None: always), with ``probability``."""

    outcome: Outcome
    status: int = 500
    reason: str = "InternalError"
    retry_after: float | None = None
    verb: str | None = None
    resource: str | None = None
    name: str | None = None
    subresource: str | None = None
    skip: int = 0
    times: int | None = 1
    probability: float = 1.0
    hits: int = 0

    def hit(self, request: Request, rng: random.Random) -> bool:
        """Whether this request is hit; counts it."""
        wanted = (self.verb, self.resource, self.name, self.subresource)
        seen = (request.verb, request.resource, request.name, request.subresource)
        if any(want is not None and want != have for want, have in zip(wanted, seen, strict=True)):
            return False
        if self.times is not None and self.hits >= self.times:
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        if rng.random() >= self.probability:
            return False
        self.hits += 1
        return True


EventFilter = Callable[[str, ResourceType, Object], bool]


@dataclass
class Faults:
    """The faults of a FakeApi.

    ``down``: nobody listens. ``latency``: seconds a request takes on the way there and again on the way back.
    ``watch_delay``: seconds watch events arrive late, so that caches are stale. Both may be functions, for random
    order. ``lose_event(type, resource, object)`` true: no watch tells of it. ``duplicate_events``: every event comes
    twice.
    """

    rng: random.Random = field(default_factory=lambda: random.Random(0))
    requests: list[RequestFault] = field(default_factory=list)
    down: bool = False
    latency: float | Callable[[], float] = 0.0
    watch_delay: float | Callable[[], float] = 0.0
    lose_event: EventFilter | None = None
    duplicate_events: bool = False

    def refuse(
        self,
        status: int,
        reason: str = "",
        *,
        verb: str | None = None,
        resource: str | None = None,
        name: str | None = None,
        subresource: str | None = None,
        retry_after: float | None = None,
        skip: int = 0,
        times: int | None = 1,
        probability: float = 1.0,
    ) -> RequestFault:
        """Answer matching requests with an HTTP error instead of doing them; ``resource`` is the plural name."""
        fault = RequestFault(
            "refuse", status, reason, retry_after, verb, resource, name, subresource, skip, times, probability
        )
        self.requests.append(fault)
        return fault

    def reset(
        self,
        *,
        verb: str | None = None,
        resource: str | None = None,
        name: str | None = None,
        subresource: str | None = None,
        skip: int = 0,
        times: int | None = 1,
        probability: float = 1.0,
    ) -> RequestFault:
        """Break the connection of matching requests before they are done."""
        fault = RequestFault("reset", 0, "", None, verb, resource, name, subresource, skip, times, probability)
        self.requests.append(fault)
        return fault

    def lose_response(
        self,
        *,
        verb: str | None = None,
        resource: str | None = None,
        name: str | None = None,
        subresource: str | None = None,
        skip: int = 0,
        times: int | None = 1,
        probability: float = 1.0,
    ) -> RequestFault:
        """Do matching requests, then break the connection instead of answering."""
        fault = RequestFault("lose", 0, "", None, verb, resource, name, subresource, skip, times, probability)
        self.requests.append(fault)
        return fault

    def chaos(self, probability: float, seed: int = 0) -> None:
        """Spread every kind of request fault at random over all writes, each with this probability."""
        self.rng.seed(seed)
        for verb in ("create", "update", "patch", "delete"):
            self.refuse(409, "Conflict", verb=verb, times=None, probability=probability)
            self.refuse(429, "TooManyRequests", verb=verb, times=None, probability=probability, retry_after=0)
            self.refuse(500, "InternalError", verb=verb, times=None, probability=probability)
            self.reset(verb=verb, times=None, probability=probability)
            self.lose_response(verb=verb, times=None, probability=probability)

    def clear(self) -> None:
        """Let everything work again."""
        self.requests.clear()
        self.down = False
        self.latency = 0.0
        self.watch_delay = 0.0
        self.lose_event = None
        self.duplicate_events = False

    def of(self, request: Request) -> RequestFault | None:
        """Return the fault that hits this request, if any."""
        return next((fault for fault in self.requests if fault.hit(request, self.rng)), None)


def seconds(value: float | Callable[[], float]) -> float:
    """Return a duration that is given as such or as a function."""
    return value() if callable(value) else value
