"""What keeps the containers of a pod from being ready, by the pod's status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from grove.api.labels import INIT_CONTAINER

Object = Mapping[str, Any]

_BEGINNING = frozenset({"ContainerCreating", "PodInitializing"})
"""Reasons for waiting that every container has for a while."""


class Trouble(IntEnum):
    """What is the matter with a container, the worst first."""

    CANNOT_START = 0
    CRASHED = 1
    NOT_READY = 2
    NOT_STARTED = 3
    INITIALIZING = 4
    CREATING = 5


@dataclass(frozen=True, slots=True)
class Complaint:
    """A container that is not ready, and why."""

    trouble: Trouble
    container: str
    reason: str = ""
    """the kubelet's word, such as CrashLoopBackOff, ImagePullBackOff, OOMKilled"""
    message: str = ""
    exit_code: int | None = None
    """of its last end"""
    restarts: int = 0

    @property
    def text(self) -> str:
        """In a few words, without the container's name."""
        again = (
            f", restarted {self.restarts} times" if self.restarts > 1 else ", restarted once" if self.restarts else ""
        )
        match self.trouble:
            case Trouble.CANNOT_START:
                return f"cannot start: {self.reason}"
            case Trouble.CRASHED:
                how = f" ({self.reason})" if self.reason else ""
                return f"ended with exit code {self.exit_code}{how}{again}"
            case Trouble.NOT_READY:
                return f"runs and is not ready{again}"
            case Trouble.NOT_STARTED:
                return f"runs, and its startup probe has not succeeded{again}"
            case Trouble.INITIALIZING:
                return f"is an init container that runs{again}"
        return "is being created"


def complaints(pod: Object) -> list[Complaint]:
    """What is wrong with a pod's containers, the worst first; empty when all are ready or nothing is known of them.

    Our own init container, which waits for other cliques, is none.
    """
    status = pod.get("status") or {}
    initial = (pod.get("spec") or {}).get("initContainers") or ()
    # Sidecars run beside the main containers.
    first = {one.get("name") for one in initial if one.get("restartPolicy") != "Always"}
    found = [
        complaint
        for key in ("initContainerStatuses", "containerStatuses")
        for one in status.get(key) or ()
        if one.get("name") != INIT_CONTAINER or not _runs(one)
        for complaint in [_complaint(one, init=one.get("name") in first)]
        if complaint is not None
    ]
    return sorted(found, key=lambda complaint: complaint.trouble)


def _complaint(status: Object, *, init: bool) -> Complaint | None:
    name, restarts = str(status.get("name", "")), int(status.get("restartCount") or 0)
    state: Object = status.get("state") or {}
    last: Object = (status.get("lastState") or {}).get("terminated") or {}
    waiting, ended = state.get("waiting"), state.get("terminated")
    if ended is not None and ended.get("exitCode"):
        return _crash(name, ended, ended.get("reason") or "", restarts)
    if ended is not None or (init and status.get("ready")):
        return None
    if waiting is not None:
        reason, message = waiting.get("reason") or "", waiting.get("message") or ""
        if last.get("exitCode"):
            # What ended it tells more than that the kubelet waits with the next attempt, unless it is only "Error".
            told = last.get("reason") or ""
            return _crash(name, last, reason or told if told in ("", "Error") else told, restarts)
        trouble = Trouble.CREATING if reason in ("", *_BEGINNING) else Trouble.CANNOT_START
        return Complaint(trouble, name, reason, message, restarts=restarts)
    if not _runs(status) or status.get("ready"):
        return None
    if init:
        return Complaint(Trouble.INITIALIZING, name, restarts=restarts)
    if last.get("exitCode"):
        return _crash(name, last, last.get("reason") or "", restarts)
    trouble = Trouble.NOT_STARTED if status.get("started") is False else Trouble.NOT_READY
    return Complaint(trouble, name, restarts=restarts)


def _crash(name: str, ended: Object, reason: str, restarts: int) -> Complaint:
    return Complaint(Trouble.CRASHED, name, reason, ended.get("message") or "", int(ended["exitCode"]), restarts)


def _runs(status: Object) -> bool:
    return (status.get("state") or {}).get("running") is not None
