"""Tries out the pods of a set on the API server, which alone knows all that a podSpec has to satisfy.

The CustomResourceDefinition cannot hold the rules of a podSpec: a request above its limit, a volume that is mounted but
not there, a label selector that is none. Such a set would be accepted, and fail when its pods are created.
"""

import asyncio
import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from grove.api import labels
from grove.plan.kinds import POD
from grove.runtime import metrics
from grove.runtime.client import Client
from grove.runtime.errors import ApiError, Cause

logger = logging.getLogger(__name__)

_SECONDS: Final = 3.0
"""For all pods of a set together; what is not known by then is not held against it."""
_AT_ONCE: Final = 4
"""Of one set, so that large ones leave room for others."""
_MAX_PODS: Final = 64

_NAME: Final = "grove-"
_FORBIDDEN: Final = re.compile(rf'^pods "{_NAME}\w*" is forbidden: ')
_NO_POD: Final = re.compile(r'"Pod" in version "v1" cannot be handled as a Pod')
"""The API server's words, with status 400, for a pod that it cannot even decode."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the API server says about the pods of a set."""

    causes: tuple[Cause, ...] = ()
    """why pods could never be created, by the fields of the set"""
    warnings: tuple[str, ...] = ()
    """why they could not be created now: a quota, a policy, a ServiceAccount that is not there yet"""


@dataclass(frozen=True, slots=True)
class _Trial:
    """A pod to try, and the path of the clique whose pod it is."""

    path: str
    pod: dict[str, Any]


class DryRun:
    """Tries one pod of each clique by a create with `dryRun=All`: all checks of a create, and nothing is stored.

    Whatever keeps the API server from a clear word (no permission, a namespace that is not there, a time-out, a
    webhook of others) is no reason to refuse a set.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    async def check(self, pcs: Mapping[str, Any], old: Mapping[str, Any] | None, namespace: str) -> Verdict:
        """Try the cliques of a valid, defaulted PodCliqueSet whose pods differ from those of `old`. Never raises."""
        limit = asyncio.Semaphore(_AT_ONCE)

        async def attempt(trial: _Trial) -> Verdict:
            async with limit:
                return await self._try(trial, namespace)

        tasks = [asyncio.ensure_future(attempt(trial)) for trial in _trials(pcs, old)]
        if not tasks:
            return Verdict()
        done, late = await asyncio.wait(tasks, timeout=_SECONDS)
        for task in late:
            task.cancel()
            metrics.DRY_RUNS.labels("unknown").inc()
        verdicts = [task.result() for task in tasks if task in done]
        return Verdict(
            causes=tuple(cause for verdict in verdicts for cause in verdict.causes),
            warnings=tuple(warning for verdict in verdicts for warning in verdict.warnings),
        )

    async def _try(self, trial: _Trial, namespace: str) -> Verdict:
        try:
            await self._client.request(
                "POST",
                POD.path(namespace),
                params={"dryRun": "All", "fieldManager": "grove-operator"},
                body=trial.pod,
                verb="dry-run",
                resource=POD.label,
            )
        except ApiError as error:
            outcome, verdict = _judge(trial, error)
        else:
            outcome, verdict = "valid", Verdict()
        metrics.DRY_RUNS.labels(outcome).inc()
        return verdict


def _judge(trial: _Trial, error: ApiError) -> tuple[str, Verdict]:
    """The outcome of a refused trial, for metrics, and what it means for the set."""
    by_webhook = error.message.startswith("admission webhook ")
    if error.is_invalid and not by_webhook:
        return "invalid", Verdict(causes=tuple(_causes(trial, error)))
    if error.status == 400 and _NO_POD.search(error.message):
        message = error.message.rpartition("cannot be handled as a Pod: ")[2]
        return "invalid", Verdict(causes=(Cause("FieldValueInvalid", message, f"{trial.path}.spec.podSpec"),))
    if (error.is_forbidden and not _is_about_us(error)) or by_webhook:
        why = _FORBIDDEN.sub("", error.message)
        return "refused", Verdict(warnings=(f"{trial.path}: pods would be refused now: {why}",))
    logger.debug("%s: not tried out: %s", trial.path, error)
    return "unknown", Verdict()


def _is_about_us(error: ApiError) -> bool:
    """Whether the operator may not create pods there, or nobody may any more."""
    return "cannot create resource" in error.message or error.is_namespace_terminating


def _causes(trial: _Trial, error: ApiError) -> Iterator[Cause]:
    """The reasons of a 422, moved from the fields of the pod to those of the set."""
    for cause in error.causes:
        yield Cause(cause.reason, cause.message, _field(trial.path, cause.field))
    if not error.causes:
        yield Cause("FieldValueInvalid", error.message, f"{trial.path}.spec.podSpec")


def _field(path: str, field: str) -> str:
    head, _, rest = field.partition(".")
    if head == "metadata":
        return f"{path}.{rest}" if rest else path
    return f"{path}.spec.podSpec{field.removeprefix('spec')}"


def _trials(pcs: Mapping[str, Any], old: Mapping[str, Any] | None) -> list[_Trial]:
    """One pod per clique, each different pod once, at most 64; none for what is as it was."""
    known = {_key(pod) for _, pod in _pods(old)} if old is not None else set()
    found: list[_Trial] = []
    for path, pod in _pods(pcs):
        key = _key(pod)
        if key not in known and len(found) < _MAX_PODS:
            known.add(key)
            found.append(_Trial(path, pod))
    return found


def _pods(pcs: Mapping[str, Any]) -> Iterable[tuple[str, dict[str, Any]]]:
    """A pod of each clique with what the user wrote and no more, so that fields keep their places."""
    template = pcs["spec"]["template"]
    for index, clique in enumerate(template.get("cliques") or ()):
        spec = dict(clique["spec"].get("podSpec") or {})
        # As on the real one. It makes the API server refuse a nodeName, and it keeps schedulers away.
        spec["schedulingGates"] = [*(spec.get("schedulingGates") or ()), {"name": labels.POD_GATE}]
        metadata = {
            "generateName": _NAME,
            "labels": {**(clique.get("labels") or {}), labels.MANAGED_BY: labels.MANAGED_BY_GROVE},
            "annotations": clique.get("annotations") or {},
        }
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        yield f"spec.template.cliques[{index}]", pod


def _key(pod: dict[str, Any]) -> bytes:
    return orjson.dumps(pod, option=orjson.OPT_SORT_KEYS)
