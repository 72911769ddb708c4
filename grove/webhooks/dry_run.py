"""Tries the objects of a set on the API server, which alone knows all that they have to satisfy."""

import asyncio
import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from grove.runtime import clock, metrics
from grove.runtime.client import Client
from grove.runtime.errors import ApiError, Cause
from grove.webhooks.trials import NAME, Trial

logger = logging.getLogger(__name__)

_SECONDS: Final = 2.0
"""For all objects of a set together; what is not known by then is not held against it."""
_AT_ONCE: Final = 4
"""Of one set, so that large ones leave room for others."""
_MAX_OBJECTS: Final = 64
_REMEMBERED_SECONDS: Final = 300.0
_MAX_REMEMBERED: Final = 1024

_FORBIDDEN: Final = re.compile(rf'^[\w.]+ "{NAME}\w*" is forbidden: ')
_NOT_DECODED: Final = re.compile(r'(\w+)"? in version "\w+" cannot be handled as a \1: ')
"""The API server's words, with status 400, for an object that it cannot even decode."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the API server says about the objects of a set."""

    causes: tuple[Cause, ...] = ()
    """why they could never be created, by the fields of the set"""
    warnings: tuple[str, ...] = ()
    """why they could not be created now: a quota, a policy, a ServiceAccount that is not there yet"""


class DryRun:
    """Tries objects by a create with `dryRun=All`: all checks of a create, and nothing is stored.

    Whatever keeps the API server from a clear word (no permission, a namespace that is not there, a time-out, a
    webhook of others) is no reason to refuse a set. An object that was found right is not tried again for some minutes.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._right: dict[tuple[str, bytes], float] = {}
        """By namespace and object: until when one that was found right counts as that, the longest known first."""

    async def check(self, trials: Sequence[Trial], namespace: str) -> Verdict:
        """Try what is not known to be right. Never raises."""
        now, limit = clock.now(), asyncio.Semaphore(_AT_ONCE)

        async def attempt(trial: Trial) -> Verdict:
            async with limit:
                return await self._try(trial, namespace)

        unknown = [trial for trial in trials if self._right.get((namespace, trial.key), 0.0) < now][:_MAX_OBJECTS]
        tasks = [asyncio.ensure_future(attempt(trial)) for trial in unknown]
        if not tasks:
            return Verdict()
        done, late = await asyncio.wait(tasks, timeout=_SECONDS)
        for task in late:
            task.cancel()
            metrics.DRY_RUNS.labels("unknown").inc()
        verdicts = [task.result() for task in tasks if task in done]
        return Verdict(
            causes=tuple(dict.fromkeys(cause for verdict in verdicts for cause in verdict.causes)),
            warnings=tuple(dict.fromkeys(warning for verdict in verdicts for warning in verdict.warnings)),
        )

    async def _try(self, trial: Trial, namespace: str) -> Verdict:
        try:
            await self._client.request(
                "POST",
                trial.resource.path(namespace),
                params={"dryRun": "All", "fieldManager": "grove-operator"},
                body=trial.body,
                verb="dry-run",
                resource=trial.resource.label,
            )
        except ApiError as error:
            outcome, verdict = _judge(trial, error)
        else:
            outcome, verdict = "valid", Verdict()
            self._remember(namespace, trial.key)
        metrics.DRY_RUNS.labels(outcome).inc()
        return verdict

    def _remember(self, namespace: str, key: bytes) -> None:
        self._right.pop((namespace, key), None)
        self._right[namespace, key] = clock.now() + _REMEMBERED_SECONDS
        if len(self._right) > _MAX_REMEMBERED:
            del self._right[next(iter(self._right))]


def _judge(trial: Trial, error: ApiError) -> tuple[str, Verdict]:
    """The outcome of a refused trial, for metrics, and what it means for the set."""
    by_webhook = error.message.startswith("admission webhook ")
    if error.is_invalid and not by_webhook:
        return "invalid", Verdict(causes=tuple(_causes(trial, error)))
    if error.status == 400 and (found := _NOT_DECODED.search(error.message)):
        return "invalid", Verdict(causes=(Cause("FieldValueInvalid", error.message[found.end() :], trial.place("")),))
    if (error.is_forbidden and not _is_about_us(error)) or by_webhook:
        return "refused", Verdict(warnings=(_warning(trial, _FORBIDDEN.sub("", error.message)),))
    logger.debug("%s: not tried out: %s", trial.owner, error)
    return "unknown", Verdict()


def _warning(trial: Trial, why: str) -> str:
    if trial.priority and why == f"no PriorityClass with name {trial.priority} was found":
        return f"{trial.place('spec.priorityClassName')}: pods would be refused now: {why}"
    return f"{trial.owner}: {trial.resource.plural} would be refused now: {why}"


def _is_about_us(error: ApiError) -> bool:
    """Whether the operator may not create such objects there, or nobody may any more."""
    return "cannot create resource" in error.message or error.is_namespace_terminating


def _causes(trial: Trial, error: ApiError) -> Iterator[Cause]:
    """The reasons of a 422, moved from the fields of the object to those of the set."""
    for cause in error.causes:
        yield Cause(cause.reason, cause.message, trial.place(cause.field))
    if not error.causes:
        yield Cause("FieldValueInvalid", error.message, trial.place(""))
