"""Leader election by a Lease (coordination.k8s.io/v1), as all Kubernetes controllers do it.

Who leads renews the Lease every `retry` seconds. Others take it when nobody holds it, or when it has not changed for
the time it names. That time is measured by the own clock from the last change seen, never by the time stamps in the
Lease, so that clocks may differ as they like. Who cannot renew for `renew_deadline` seconds stops leading: that is
less than the Lease's duration, so it has stopped before another can begin.

A process that was paused may wake up after its Lease has gone. Two things keep it from writing then: `leads` tells the
time, not a flag, and is asked before each write; and what runs is ended by a timer, which an event loop looks at
before it goes on with anything that waited.
"""

import asyncio
import datetime
import logging
import math
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass

from grove.runtime import clock, metrics
from grove.runtime.client import Client, Object
from grove.runtime.errors import ApiError, jittered
from grove.runtime.resources import ResourceType

logger = logging.getLogger(__name__)

LEASE = ResourceType("coordination.k8s.io", "v1", "leases", "Lease")

_NEVER = -math.inf
_BEYOND = 0.01
"""Seconds; an event loop may be early by a clock tick."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds: how long a Lease holds, how long a leader tries to renew it, how often it does."""

    duration: float = 15.0
    renew_deadline: float = 10.0
    retry: float = 2.0


class Election:
    """One candidate for the Lease ``namespace``/``name``, under an ``identity`` that no other candidate has.

    ``client`` must not share its connections with work that can fill them, and gives up a request in time for another.
    """

    def __init__(self, client: Client, namespace: str, name: str, identity: str, timing: Timing | None = None) -> None:
        self.identity = identity
        self._client = client
        self._namespace = namespace
        self._name = name
        self._timing = timing or Timing()
        self._lease: Object | None = None
        """The Lease as last seen, None when there is none."""
        self._seen = _NEVER
        """When it was first seen like this."""
        self._valid_until = _NEVER
        self._told = ""
        metrics.LEADER.labels(name).set_function(lambda: float(self.leads()))

    def leads(self) -> bool:
        """Whether this candidate may write at this very moment."""
        return clock.now() < self._valid_until

    async def run(self, work: Callable[[], Awaitable[None]], abort: Callable[[], None]) -> None:
        """Take part until cancelled: run ``work`` whenever elected, cancel it when the Lease is lost.

        ``abort`` is called the moment the Lease is lost and must end at once, without waiting, all that writes.
        When cancelled, ``work`` may finish while the Lease is still renewed; then it is released. An error of ``work``
        is raised here.
        """
        while True:
            await self._campaign()
            logger.info("Leading, by Lease %s/%s, as %s", self._namespace, self._name, self.identity)
            task = asyncio.ensure_future(work())
            try:
                await self._hold(task, abort)
            finally:
                task.cancel()
                await self._finish(task, abort)
            if not task.cancelled():
                task.result()
            logger.warning("No longer leading: Lease %s/%s could not be renewed", self._namespace, self._name)

    async def _finish(self, task: asyncio.Future[None], abort: Callable[[], None]) -> None:
        """Wait for the end of ``task``, renewing meanwhile if the Lease is still ours, and release it."""
        if not self.leads():
            await asyncio.gather(task, return_exceptions=True)
            return
        await self._hold(task, abort)
        await asyncio.gather(task, return_exceptions=True)
        if self.leads():
            await self._release()

    async def _campaign(self) -> None:
        """Return once elected."""
        while True:
            before = clock.now()
            try:
                async with asyncio.timeout(self._timing.renew_deadline):
                    self._observe(await self._get())
                    if self._is_free() and await self._take(before):
                        return
            except (ApiError, TimeoutError) as error:
                self._tell("Leader election goes on: %s", error or "no answer in time")
                await asyncio.sleep(jittered(self._timing.retry))
            else:
                await self._news()

    async def _hold(self, task: asyncio.Future[None], abort: Callable[[], None]) -> None:
        """Renew until ``task`` ends or the Lease is lost."""
        while not task.done():
            lost = asyncio.Event()
            alarm = asyncio.get_running_loop().call_at(self._valid_until, _both, lost.set, abort)
            try:
                await asyncio.wait((task,), timeout=self._timing.retry)
                if not task.done() and not lost.is_set():
                    await self._renew()
            finally:
                alarm.cancel()
            if not task.done() and (lost.is_set() or not self.leads()):
                abort()
                return

    async def _renew(self) -> None:
        """Renew once; an error leaves things as they are, another holder ends the leadership."""
        before = clock.now()
        try:
            async with asyncio.timeout(max(0.0, self._valid_until - before)):
                if not await self._take(before):
                    self._observe(await self._get())
                    if self._lease is not None and _holder(self._lease) not in ("", self.identity):
                        self._valid_until = _NEVER
                    else:  # the answer to an earlier write of ours was lost, or the Lease was deleted
                        await self._take(before)
        except (ApiError, TimeoutError) as error:
            self._tell("The Lease was not renewed: %s", error or "no answer in time")

    async def _get(self) -> Object | None:
        try:
            return await self._client.get(LEASE, self._namespace, self._name)
        except ApiError as error:
            if error.is_not_found:
                return None
            raise

    async def _take(self, before: float) -> bool:
        """Write the Lease as ours; False when somebody else wrote it meanwhile. Raises ApiError."""
        now = _timestamp()
        spec = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": math.ceil(self._timing.duration),
            "renewTime": now,
        }
        known = (self._lease or {}).get("spec") or {}
        if known.get("holderIdentity") != self.identity:
            spec |= {"acquireTime": now, "leaseTransitions": _number(known.get("leaseTransitions")) + 1 if known else 0}
        if not await self._write(spec):
            return False
        self._valid_until = before + self._timing.renew_deadline
        self._told = ""
        return True

    async def _release(self) -> None:
        """Give the Lease up, so that another need not wait for its end; it ends by itself when this fails."""
        self._valid_until = _NEVER
        now = _timestamp()
        with suppress(ApiError, TimeoutError):
            async with asyncio.timeout(self._timing.retry):
                await self._write(
                    {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": now, "acquireTime": now}
                )
                logger.info("Released Lease %s/%s", self._namespace, self._name)

    async def _write(self, spec: Object) -> bool:
        """Write fields of the spec, only over the version last seen; False when there is another one by now."""
        try:
            if self._lease is None:
                metadata: Object = {"namespace": self._namespace, "name": self._name}
                body = {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": metadata, "spec": spec}
                self._observe(await self._client.create(LEASE, body))
            else:
                body = {"metadata": {"resourceVersion": self._lease["metadata"]["resourceVersion"]}, "spec": spec}
                self._observe(await self._client.patch(LEASE, self._namespace, self._name, body))
        except ApiError as error:
            if error.status == 409 or (error.is_not_found and self._lease is not None):
                return False
            raise
        return True

    def _observe(self, lease: Object | None) -> None:
        """Note a state of the Lease, and since when it is like that."""
        if _version(lease) != _version(self._lease):
            self._seen = clock.now()
        self._lease = lease

    def _is_free(self) -> bool:
        free = self._lease is None or _holder(self._lease) in ("", self.identity)
        return free or clock.now() >= self._expiry()

    def _expiry(self) -> float:
        """When the Lease ends unless it is renewed."""
        spec = (self._lease or {}).get("spec") or {}
        return self._seen + _number(spec.get("leaseDurationSeconds"))

    async def _news(self) -> None:
        """Return when the Lease changes, or ends unchanged."""
        if self._lease is None or not _holder(self._lease):
            await asyncio.sleep(jittered(self._timing.retry) / 4)  # somebody else was faster just now
            return
        self._tell("Standing by: %s leads", _holder(self._lease))
        events = self._client.watch(
            LEASE,
            resource_version=self._lease["metadata"]["resourceVersion"],
            namespace=self._namespace,
            field_selector=f"metadata.name={self._name}",
        )
        try:
            async with asyncio.timeout_at(self._expiry() + _BEYOND) as deadline, aclosing(events):
                async for event in events:
                    if event["type"] == "DELETED":
                        return
                    if event["type"] != "BOOKMARK":
                        self._observe(event["object"])
                        deadline.reschedule(self._expiry() + _BEYOND)
                    if self._is_free():
                        return
        except TimeoutError:
            return
        except ApiError as error:
            self._tell("Leader election goes on: %s", error)
            await asyncio.sleep(jittered(self._timing.retry))

    def _tell(self, message: str, value: object) -> None:
        """Log a state once."""
        text = message % value
        if self._told != text:
            self._told = text
            logger.info("%s", text)


def _both(first: Callable[[], None], second: Callable[[], None]) -> None:
    first()
    second()


def _version(lease: Object | None) -> str:
    return str(lease["metadata"]["resourceVersion"]) if lease else ""


def _holder(lease: Object) -> str:
    return str((lease.get("spec") or {}).get("holderIdentity") or "")


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _timestamp() -> str:
    """The time now as Kubernetes writes a MicroTime."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
