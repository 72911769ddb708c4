"""Carries plans out: sends writes, feeds the answers to the caches, tells users what happened, and collects errors."""

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from grove.controllers.world import World
from grove.runtime.apply import Result, apply
from grove.runtime.client import Client
from grove.runtime.errors import ApiError
from grove.runtime.events import EventRecorder
from grove.runtime.resources import ResourceType, reference_to
from grove.runtime.writes import Create, Delete, Patch, Write

logger = logging.getLogger(__name__)

Reasons = Mapping[tuple[ResourceType, type[Write]], tuple[str, str]]
"""Event reasons (success, failure) by the resource and kind of a write."""

_NAMED = 5  # objects named in one event; the rest is counted


class PassFailedError(Exception):
    """Some writes of a pass failed; the pass runs again after a back-off."""

    def __init__(self, errors: Sequence["Failure"]) -> None:
        super().__init__("; ".join(error.description for error in errors[:3]))
        self.retriable = True
        self.retry_after = max((error.retry_after or 0.0 for error in errors), default=0.0)


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed write, as status.lastErrors shows it."""

    code: str
    description: str
    passing: bool = False
    """a conflict with another writer or a lost answer: the next pass mends it, no user needs to know"""
    retry_after: float | None = None


@dataclass(slots=True)
class Outcome:
    """What became of a pass's writes."""

    changed: bool = False
    failures: list[Failure] = field(default_factory=list)

    def add(self, other: "Outcome") -> None:
        self.changed = self.changed or other.changed
        self.failures += other.failures

    def finish(self) -> None:
        """Raise PassFailedError when something failed, so that the queue repeats the pass."""
        if self.failures:
            raise PassFailedError(self.failures)

    def last_errors(self, live: Mapping[str, Any], now: str) -> list[dict[str, Any]]:
        """status.lastErrors of this pass; an error that was there before keeps its observedAt."""
        seen = {(e.get("code"), e.get("description")): e.get("observedAt") for e in live.get("lastErrors") or ()}
        shown = dict.fromkeys((f.code, f.description) for f in self.failures if not f.passing)
        return [{"code": c, "description": d, "observedAt": seen.get((c, d)) or now} for c, d in list(shown)[:10]]


class Actor:
    """Sends writes for the reconcilers. One per process."""

    def __init__(self, client: Client, world: World, recorder: EventRecorder) -> None:
        self._client = client
        self._world = world
        self._recorder = recorder

    async def act(
        self,
        regarding: tuple[ResourceType, Mapping[str, Any]],
        writes: Sequence[Write],
        reasons: "Reasons | None" = None,
    ) -> Outcome:
        """Send writes side by side and report on the object `regarding` (its type and wire form).

        `reasons` gives the event reasons (success, failure) by resource and kind of write; what it lacks is silent.
        """
        if not writes:
            return Outcome()
        results = await apply(self._client, writes, on_object=self._world.take, on_deleted=self._world.forget)
        outcome = Outcome(changed=any(result.ok for result in results))
        done: dict[tuple[ResourceType, type[Write]], list[str]] = {}
        for result in results:
            failure = _failure(result)
            if failure is not None:
                outcome.failures.append(failure)
            elif result.ok and not result.existing:
                done.setdefault((result.write.resource, type(result.write)), []).append(result.write.name)
        self._tell(regarding, done, outcome.failures, results, reasons or {})
        return outcome

    async def patch_status(self, resource: ResourceType, live: Mapping[str, Any], status: Mapping[str, Any]) -> Outcome:
        """Write the fields of a status, guarded by the version the status was made from.

        Conditions are replaced as a list, so a writer of other conditions in between makes the patch fail and the pass
        run again.
        """
        metadata = live["metadata"]
        body = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "status": dict(status)}
        write = Patch(resource, metadata.get("namespace", ""), metadata["name"], body, "status", metadata["uid"])
        return await self.act((resource, live), [write])

    def event(self, resource: ResourceType, obj: Mapping[str, Any], kind: str, reason: str, message: str) -> None:
        """Record an event on an object; `kind` is Normal or Warning."""
        self._recorder.event(reference_to(resource, dict(obj)), kind, reason, message)

    def _tell(
        self,
        regarding: tuple[ResourceType, Mapping[str, Any]],
        done: Mapping[tuple[ResourceType, type[Write]], Sequence[str]],
        failures: Sequence[Failure],
        results: Iterable[Result],
        reasons: "Reasons",
    ) -> None:
        resource, obj = regarding
        where = f"{resource.kind} {obj['metadata'].get('namespace', '')}/{obj['metadata']['name']}"
        for key, names in done.items():
            if key in reasons:
                message = f"{_VERBS[key[1]]} {_counted(key[0].kind, names)}"
                logger.info("%s: %s", where, message)
                self.event(resource, obj, "Normal", reasons[key][0], message)
        for failure in failures:
            if not failure.passing:
                logger.warning("%s: %s", where, failure.description)
        told: set[str] = set()
        for result in results:
            key = (result.write.resource, type(result.write))
            failed = _failure(result)
            if failed is not None and not failed.passing and key in reasons and reasons[key][1] not in told:
                told.add(reasons[key][1])
                self.event(resource, obj, "Warning", reasons[key][1], failed.description)


class Patience:
    """Lets minor writes of a key wait a moment, since what they would say is about to change.

    The wait is half a second, more under load (20 ms for every key in the queues), five seconds at most.
    """

    def __init__(self, backlog: "Backlog") -> None:
        self._backlog = backlog
        self._since: dict[Any, float] = {}

    def spent(self, key: Any) -> bool:
        """Whether the key has waited long enough."""
        since = self._since.get(key)
        return since is not None and time.monotonic() - since >= self._limit()

    def wait(self, key: Any) -> float:
        """Start (or go on with) waiting; seconds that are left."""
        since = self._since.setdefault(key, time.monotonic())
        return max(since + self._limit() - time.monotonic(), 0.01)

    def settle(self, key: Any) -> None:
        """Nothing waits any more."""
        self._since.pop(key, None)

    def _limit(self) -> float:
        return min(0.5 + 0.02 * self._backlog.depth(), 5.0)


class Backlog:
    """How many keys wait in all queues together."""

    def __init__(self) -> None:
        self.queues: list[Any] = []

    def depth(self) -> int:
        return sum(queue.depth() for queue in self.queues)


def now_text() -> str:
    """The time as Kubernetes writes it: RFC 3339, UTC, whole seconds."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


_VERBS = {Create: "Created", Patch: "Updated", Delete: "Deleted"}


def _counted(kind: str, names: Sequence[str]) -> str:
    shown = ", ".join(sorted(names)[:_NAMED])
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{len(names)} {kind}{'s' if len(names) > 1 else ''}: {shown}{more}" if len(names) > 1 else f"{kind} {shown}"


def _failure(result: Result) -> Failure | None:
    """The failure of one write, None when it did what it should (or was not tried for another's failure)."""
    write = result.write
    what = f"{write.resource.kind} {write.namespace}/{write.name}"
    if isinstance(write, Create) and result.existing and result.object is not None:
        owner = _controller(result.object)
        if owner and owner == _controller(write.body):
            return None
        held_by = "another owner" if owner else "nobody"
        text = f"{what} exists already and is controlled by {held_by}; delete or rename it, or rename the PodCliqueSet"
        return Failure(f"ERR_CREATE_{write.resource.kind.upper()}", text)
    if result.error is None:
        return None
    error: ApiError = result.error
    verb = type(write).__name__.upper()
    passing = (
        error.is_conflict or error.is_not_found or (error.is_invalid and isinstance(write, Patch) and _guarded(write))
    )
    text = f"{verb.lower()} {what}: {error.message or error.reason or error}"
    return Failure(f"ERR_{verb}_{write.resource.kind.upper()}", text, passing, error.retry_after)


def _guarded(write: Patch) -> bool:
    """A JSON patch whose `test` may fail because the object changed."""
    return isinstance(write.body, list)


def _controller(obj: Mapping[str, Any]) -> str:
    owners = obj["metadata"].get("ownerReferences") or ()
    return next((str(owner.get("uid", "")) for owner in owners if owner.get("controller")), "")
