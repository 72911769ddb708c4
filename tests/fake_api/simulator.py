"""A scheduler and a kubelet for pods of a FakeApi: pods get a node, become ready, and go."""

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

from tests.fake_api.faults import seconds
from tests.fake_api.http import FakeApi
from tests.fake_api.objects import ApiStatus, Object
from tests.fake_api.store import PODS, Change

Delay = float | Callable[[], float]


def released(pod: Object) -> bool:
    """Whether no init container of the operator holds a pod, or the annotation that it waits for is there."""
    held = any(container["name"] == "grove-initc" for container in pod["spec"].get("initContainers") or ())
    return not held or (pod["metadata"].get("annotations") or {}).get("grove.io/startup") == "released"


class PodSimulator:
    """Moves pods on as soon as they may: bound once no gate holds them, ready once started, removed once deleted.

    ``schedulable(pod)`` and ``may_start(pod)`` hold pods back while false (``step()`` looks again); the latter is
    ``released`` unless given. The delays are seconds, or functions of nothing. Runs within a running loop and writes
    beside HTTP: its writes are no client's requests.
    """

    def __init__(
        self,
        api: FakeApi,
        *,
        nodes: int = 10,
        schedulable: Callable[[Object], bool] = lambda pod: True,
        may_start: Callable[[Object], bool] = released,
        bind_after: Delay = 0.0,
        ready_after: Delay = 0.0,
        gone_after: Delay = 0.0,
    ) -> None:
        self.schedulable = schedulable
        self.may_start = may_start
        self.bind_after = bind_after
        self.ready_after = ready_after
        self.gone_after = gone_after
        self._api = api
        self._nodes = itertools.cycle([f"node-{index}" for index in range(nodes)])
        self._planned: set[tuple[str, str]] = set()
        api.listeners.append(self._changed)

    def step(self) -> None:
        """Look at every pod again, after a condition of the test has changed."""
        for pod in self._api.objects(PODS):
            self._plan(pod)

    def set_ready(self, namespace: str, name: str, ready: bool) -> None:
        """Make a running pod ready or unready."""
        self._status(namespace, name, lambda status, now: _running(status, now, ready))

    def crash(self, namespace: str, name: str, exit_code: int = 1) -> None:
        """Let the main containers of a pod end with an exit code and wait in CrashLoopBackOff."""

        def change(status: Object, now: str) -> None:
            _running(status, now, False)
            for container in status["containerStatuses"]:
                container.update(
                    started=False,
                    restartCount=container["restartCount"] + 1,
                    state={"waiting": {"reason": "CrashLoopBackOff"}},
                    lastState={"terminated": {"exitCode": exit_code, "reason": "Error", "finishedAt": now}},
                )

        self._status(namespace, name, change)

    def finish(self, namespace: str, name: str, phase: str = "Failed", reason: str = "") -> None:
        """End a pod for good: ``Failed`` (with a reason such as Evicted) or ``Succeeded``."""

        def change(status: Object, now: str) -> None:
            _running(status, now, False)
            status.update(phase=phase)
            if reason:
                status["reason"] = reason

        self._status(namespace, name, change)

    def _changed(self, change: Change) -> None:
        if change.resource == PODS and change.new is not None:
            self._plan(change.new)

    def _plan(self, pod: Object) -> None:
        """Schedule the next step of a pod's life, if there is one and none is scheduled."""
        step = self._next(pod)
        uid = pod["metadata"]["uid"]
        if step is None or (uid, step[0]) in self._planned:
            return
        name, delay, move = step
        self._planned.add((uid, name))

        def run() -> None:
            self._planned.discard((uid, name))
            current = self._api.find(PODS, pod["metadata"]["namespace"], pod["metadata"]["name"])
            if current is not None and current["metadata"]["uid"] == uid:
                again = self._next(current)
                if again is not None and again[0] == name:
                    move(current)

        loop = asyncio.get_running_loop()
        wait = seconds(delay)
        if wait:
            loop.call_later(wait, run)
        else:
            loop.call_soon(run)

    def _next(self, pod: Object) -> tuple[str, Delay, Callable[[Object], None]] | None:
        metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
        if "deletionTimestamp" in metadata:
            return ("remove", self.gone_after, self._remove) if metadata["deletionGracePeriodSeconds"] else None
        if not spec.get("nodeName"):
            free = not spec.get("schedulingGates") and self.schedulable(pod)
            return ("bind", self.bind_after, self._bind) if free else None
        if status.get("phase") == "Pending" and self.may_start(pod):
            return "start", self.ready_after, self._start
        return None

    def _bind(self, pod: Object) -> None:
        metadata = pod["metadata"]
        self._api.bind(metadata["namespace"], metadata["name"], next(self._nodes))

    def _start(self, pod: Object) -> None:
        self.set_ready(pod["metadata"]["namespace"], pod["metadata"]["name"], True)

    def _remove(self, pod: Object) -> None:
        metadata = pod["metadata"]
        self._api.delete(PODS, metadata["namespace"], metadata["name"], {"gracePeriodSeconds": 0})

    def _status(self, namespace: str, name: str, change: Callable[[Object, str], None]) -> None:
        def update(pod: Object) -> Object:
            status = pod.setdefault("status", {})
            status.setdefault(
                "containerStatuses",
                [
                    {"name": container["name"], "restartCount": 0, "ready": False, "started": False}
                    for container in pod["spec"]["containers"]
                ],
            )
            change(status, self._api.timestamp())
            return pod

        try:
            self._api.update(PODS, namespace, name, update, status=True)
        except ApiStatus as error:
            if error.status != 404:
                raise


def _running(status: Object, now: str, ready: bool) -> None:
    status["phase"] = "Running"
    status.setdefault("startTime", now)
    for container in status["containerStatuses"]:
        container.update(ready=ready, started=True, state={"running": {"startedAt": now}})
    for kind, value in (("Initialized", True), ("ContainersReady", ready), ("Ready", ready)):
        set_condition(status, kind, value, now)


def set_condition(status: Object, kind: str, value: bool, now: str, **details: Any) -> None:
    """Set a condition of a pod's status; the transition time changes only with the value."""
    conditions = [condition for condition in status.get("conditions") or () if condition["type"] != kind]
    before = next((one for one in status.get("conditions") or () if one["type"] == kind), None)
    text = "True" if value else "False"
    since = before["lastTransitionTime"] if before is not None and before["status"] == text else now
    conditions.append({"type": kind, "status": text, "lastTransitionTime": since, **details})
    status["conditions"] = conditions
