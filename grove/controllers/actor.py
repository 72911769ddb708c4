"""Carries plans out: sends writes, feeds the answers to the caches, tells users what happened, and collects errors."""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from grove.api import labels
from grove.api.times import rfc3339
from grove.controllers.world import World
from grove.plan.diff import covers, replacement
from grove.plan.update import differs
from grove.runtime.apply import Result, apply
from grove.runtime.client import Client
from grove.runtime.errors import ApiError
from grove.runtime.events import EventRecorder, shorten
from grove.runtime.resources import ResourceType, reference_to
from grove.runtime.writes import Create, Delete, Patch, Write

logger = logging.getLogger(__name__)

Reasons = Mapping[tuple[ResourceType, type[Write]], tuple[str, str]]
"""Event reasons (success, failure) by the resource and kind of a write; what has the reason "" is logged only."""

_WATCHED = (labels.MANAGED_BY, labels.PODGANG)  # the labels by which kinds are selected
_NAMED = 5  # objects named in one event; the rest is counted


_STALE_SECONDS = 1.0
_TERMINATING_SECONDS = 5.0
_SHORTEST_SECONDS = 0.9
_EACH_SECONDS = 0.1
_LONGEST_SECONDS = 60.0
_FORGOTTEN_SECONDS = 120.0


class PassFailedError(Exception):
    """Some writes of a pass failed; the pass runs again after a back-off."""

    told = True
    """the failures have been logged one by one"""

    def __init__(self, failures: Sequence["Failure"]) -> None:
        super().__init__("; ".join(failure.description for failure in failures[:3]))
        self.retry_after = max((failure.retry_after or 0.0 for failure in failures), default=0.0)


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed write."""

    code: str
    description: str
    name: str = ""
    """name of the object that was not written"""
    passing: bool = False
    """nothing for users: a conflict, a lost answer, an overloaded API server; the next pass mends it"""
    news_come: float | None = None
    """the write met what the cache does not show yet: the watch brings the news, look again after so many seconds"""
    retry_after: float | None = None


@dataclass(slots=True)
class Outcome:
    """What became of a pass's writes."""

    failures: list[Failure] = field(default_factory=list)

    def add(self, other: "Outcome") -> None:
        """Take over what became of further writes."""
        self.failures += other.failures

    def finish(self) -> float | None:
        """Seconds after which to look again, None when all went well.

        Raises PassFailedError when something failed that only a retry can mend.
        """
        hard = [failure for failure in self.failures if failure.news_come is None]
        if hard:
            raise PassFailedError(hard)
        return max((failure.news_come or 0.0 for failure in self.failures), default=None)

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
        if any(isinstance(write, Create) for write in writes) and (failure := await self._owner_changed(*regarding)):
            return Outcome([failure])
        results = await apply(self._client, writes, on_object=self._world.take, on_deleted=self._world.forget)
        adoptions = [adoption for result in results if (adoption := _adoption(result)) is not None]
        outcome = Outcome([failure for result in results if (failure := _failure(result)) is not None])
        self._tell(regarding, results, outcome.failures, reasons or {})
        if adoptions:
            outcome.add(await self.act(regarding, adoptions))
        return outcome

    async def _owner_changed(self, resource: ResourceType, known: Mapping[str, Any]) -> Failure | None:
        """Look whether an owner that lost children is still there and as known, before it is given new ones.

        Children go with their owner, and the news of theirs may well outrun the news of its own.
        """
        metadata = known["metadata"]
        namespace, name, uid = metadata.get("namespace", ""), metadata["name"], metadata["uid"]
        losses = self._world.losses.get(uid, 0)
        if not losses:
            return None
        code, what = _code(Create, resource), _called(resource, namespace, name)
        try:
            live = await self._client.get(resource, namespace, name)
        except ApiError as error:
            if not error.is_not_found:
                text = shorten(f"get {what}: {error.message or error.reason}")
                return Failure(code, text, name, passing=error.retriable, retry_after=error.retry_after)
            self._world.forget(resource, namespace, name, uid)
            return Failure(code, f"{what} is gone", name, passing=True, news_come=_STALE_SECONDS)
        same = all(live["metadata"].get(key) == metadata.get(key) for key in ("uid", "generation", "deletionTimestamp"))
        self._world.take(resource, live)
        if not same:
            return Failure(code, f"{what} has changed", name, passing=True, news_come=_STALE_SECONDS)
        if self._world.losses.get(uid) == losses:
            self._world.losses[uid] = 0
        return None

    async def patch_status(self, resource: ResourceType, live: Mapping[str, Any], status: Mapping[str, Any]) -> Outcome:
        """Write the fields of a status that differ, guarded by the version the status was made from.

        Conditions are replaced as a list, so a writer of other conditions in between makes the patch fail and the pass
        run again.
        """
        metadata = live["metadata"]
        have = live.get("status") or {}
        fields = {
            key: replacement(have.get(key), value) for key, value in status.items() if differs(have, {key: value})
        }
        body = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "status": fields}
        write = Patch(resource, metadata.get("namespace", ""), metadata["name"], body, "status", metadata["uid"])
        return await self.act((resource, live), [write])

    def event(self, resource: ResourceType, obj: Mapping[str, Any], kind: str, reason: str, message: str) -> None:
        """Record an event on an object; `kind` is Normal or Warning."""
        self._recorder.event(reference_to(resource, dict(obj)), kind, reason, message)

    def _tell(
        self,
        regarding: tuple[ResourceType, Mapping[str, Any]],
        results: Sequence[Result],
        failures: Sequence[Failure],
        reasons: "Reasons",
    ) -> None:
        """One log line and one event per kind of thing done, one line and event per new failure."""
        resource, obj = regarding
        where = _called(resource, obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
        done: dict[tuple[ResourceType, type[Write]], list[str]] = {}
        for result in results:
            if result.ok and not result.existing:
                done.setdefault((result.write.resource, type(result.write)), []).append(result.write.name)
        for key, names in done.items():
            if key in reasons:
                message = f"{_VERBS[key[1]]} {_counted(key[0].kind, names)}"
                logger.info("%s: %s", where, message)
                if reasons[key][0]:
                    self.event(resource, obj, "Normal", reasons[key][0], message)
        known = _told(obj.get("status") or {})
        for failure in failures:
            quiet = failure.passing or failure.description in known
            logger.log(logging.DEBUG if quiet else logging.WARNING, "%s: %s", where, failure.description)
        for key, (_, reason) in reasons.items():
            failed = next((f for f in failures if not f.passing and f.code == _code(key[1], key[0])), None)
            if failed is not None and reason:
                self.event(resource, obj, "Warning", reason, failed.description)


class Patience:
    """Lets minor writes wait a moment, since what they would say is about to change.

    The wait is a second and 100 ms for every other key that waits, a minute at most: while one clique comes up its
    steps show at once, while a thousand come up each says only where it has arrived.
    """

    def __init__(self) -> None:
        self._waits: dict[Any, _Wait] = {}

    def spent(self, key: Any) -> bool:
        """Whether the key has waited long enough."""
        wait = self._waits.get(key)
        return wait is not None and time.monotonic() >= self._due(wait)

    def wait(self, key: Any) -> float:
        """Start (or go on with) waiting; seconds that are left."""
        now = time.monotonic()
        return max(self._due(self._waits.setdefault(key, _Wait(now))) - now, 0.01)

    def settle(self, key: Any) -> None:
        """Nothing waits any more."""
        self._waits.pop(key, None)

    def _due(self, wait: "_Wait") -> float:
        # The oldest come first; one that nobody settled belonged to something that is gone.
        while self._waits and time.monotonic() - next(iter(self._waits.values())).since > _FORGOTTEN_SECONDS:
            del self._waits[next(iter(self._waits))]
        # The last of a crowd have waited no longer than the first: what they may wait does not shrink with the crowd.
        wait.allowed = max(wait.allowed, min(_SHORTEST_SECONDS + _EACH_SECONDS * len(self._waits), _LONGEST_SECONDS))
        return wait.since + wait.allowed


@dataclass(slots=True)
class _Wait:
    since: float
    allowed: float = 0.0


def earliest(*seconds: float | None) -> float | None:
    """The first of several times to look again, where any is given."""
    return min((wait for wait in seconds if wait is not None), default=None)


def now_text() -> str:
    """The time as Kubernetes writes it: RFC 3339, UTC, whole seconds."""
    return rfc3339(time.time())


_VERBS = {Create: "Created", Patch: "Updated", Delete: "Deleted"}


def _counted(kind: str, names: Sequence[str]) -> str:
    shown = ", ".join(sorted(names)[:_NAMED])
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{len(names)} {kind}{'s' if len(names) > 1 else ''}: {shown}{more}" if len(names) > 1 else f"{kind} {shown}"


def _failure(result: Result) -> Failure | None:
    """The failure of one write, None when it did what it should."""
    write, error = result.write, result.error
    what = _called(write.resource, write.namespace, write.name)
    code = _code(type(write), write.resource)
    if isinstance(write, Create) and result.existing and result.object is not None:
        return _met(code, what, write, result.object, adopted=_adoption(result) is not None)
    if result.skipped:
        return Failure(code, f"{what}: not tried, since others failed", write.name, passing=True)
    if error is None:
        return None
    # The API server repeats a value it refuses, however long: ten such texts would not fit into a status.
    text = shorten(f"{type(write).__name__.lower()} {what}: {error.message or error.reason or error}")
    if error.is_namespace_terminating:
        return Failure(code, text, write.name, passing=True, news_come=_TERMINATING_SECONDS)
    # The `test` of a JSON patch failed, or the uid of a merge patch: the object is not what it was.
    guarded = isinstance(write, Patch) and (isinstance(write.body, list) or "metadata.uid" in error.message)
    overtaken = error.is_invalid and guarded
    if error.is_conflict or error.is_not_found or overtaken:
        return Failure(code, text, write.name, passing=True, news_come=_STALE_SECONDS)
    return Failure(code, text, write.name, passing=error.retriable, retry_after=error.retry_after)


def _met(code: str, what: str, write: Create, found: Mapping[str, Any], *, adopted: bool) -> Failure | None:
    """Judge the object that a create found under its name; None when it is just what was to be created.

    What is ours but differs (an answer was lost, another operator was faster) has not been written: the next pass
    patches it, as it does what else an adopted object lacks. What is on its way out, or belonged to a parent of the
    same name before, makes room by itself.
    """
    have, want = _controller(found), _controller(write.body)
    if not adopted and have.get("uid") == want.get("uid") and covers(found.get("spec"), write.body.get("spec")):
        return None
    namesake = all(have.get(key) == want.get(key) for key in ("kind", "name"))
    if adopted or namesake or "deletionTimestamp" in found["metadata"]:
        return Failure(code, f"{what} exists already", write.name, passing=True, news_come=_STALE_SECONDS)
    belongs = "another owner" if have else "nobody"
    kind = "PodCliqueSet" if write.resource.namespaced else want.get("kind")
    text = f"{what} exists already and belongs to {belongs}: delete it, or rename the {kind}"
    return Failure(code, text, write.name)


def _adoption(result: Result) -> Patch | None:
    """The patch that takes in a child that the cache does not show.

    It lost its owner (deleted with --cascade=orphan) and carries our labels, or has its owner and lacks a label by
    which it is watched (PodGroups of the Go operator never had theirs).
    """
    write, found = result.write, result.object
    if not (isinstance(write, Create) and result.existing and found is not None):
        return None
    metadata, owner = found["metadata"], _controller(found)
    have, want = metadata.get("labels") or {}, write.body["metadata"]["labels"]
    body: dict[str, Any] = {"resourceVersion": metadata["resourceVersion"]}
    if not owner and all(
        key in want and have.get(key) == want[key] for key in (labels.MANAGED_BY, labels.PART_OF, labels.COMPONENT)
    ):
        body["ownerReferences"] = [*metadata.get("ownerReferences", ()), *write.body["metadata"]["ownerReferences"]]
    elif owner.get("uid") == _controller(write.body)["uid"] and (
        lacking := {key: want[key] for key in _WATCHED if key in want and have.get(key) != want[key]}
    ):
        body["labels"] = lacking
    else:
        return None
    return Patch(write.resource, write.namespace, write.name, {"metadata": body}, uid=metadata["uid"])


def _called(resource: ResourceType, namespace: str, name: str) -> str:
    return f"{resource.kind} {namespace}/{name}" if namespace else f"{resource.kind} {name}"


def _told(status: Mapping[str, Any]) -> set[str | None]:
    """The failures that a status tells already: of a set and what is made of it, or of a ClusterTopologyBinding."""
    errors, topologies = status.get("lastErrors") or (), status.get("schedulerTopologyStatuses") or ()
    return {error.get("description") for error in errors} | {topology.get("message") for topology in topologies}


def _code(verb: type[Write], resource: ResourceType) -> str:
    return f"ERR_{verb.__name__.upper()}_{resource.kind.upper()}"


def _controller(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    """The owner reference of the controlling owner, {} when there is none."""
    owners = obj["metadata"].get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), {})
