"""The init container that holds a pod until the operator releases it, and what it adds to the pod.

It reads two annotations of its pod from a downward-API volume: no credentials, no requests to the API server.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from grove.api import labels
from grove.plan.diff import quantity

SHELL_IMAGE = "docker.io/library/busybox:1.37.0"
"""Default image of the shell program."""

STARTUP_FILE = f"{labels.POD_INFO_PATH}/startup"
WAITING_FOR_FILE = f"{labels.POD_INFO_PATH}/waiting-for"

_FILES = {STARTUP_FILE: labels.STARTUP, WAITING_FOR_FILE: labels.STARTUP_WAITING_FOR}

# `read` ends with an error where a file has no newline at its end, which these never have. A signal is heeded at once,
# as the shell waits for a background job.
_SHELL_PROGRAM = f"""\
trap 'exit 143' TERM INT
seconds=0
while state=; read -r state <{STARTUP_FILE} || :; [ "$state" != {labels.STARTUP_RELEASED} ]; do
  if [ $((seconds % 30)) -eq 0 ]; then
    cliques=; read -r cliques <{WAITING_FOR_FILE} || :
    echo "waiting for ${{cliques:-the release by the operator}}"
  fi
  seconds=$((seconds + 1))
  sleep 1 & wait $!
done
echo released
"""


class Program(StrEnum):
    """What runs in the init container."""

    SHELL = "shell"
    PYTHON = "python"


class InitContainer(BaseModel):
    """How the init container is configured (`initContainer` of the OperatorConfiguration)."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, validate_by_name=True, validate_by_alias=True)

    program: Program = Program.SHELL
    """shell: a few lines for /bin/sh of any image; python: `python -m grove.initc` of the operator's image"""
    image: str = ""
    """default: a busybox for the shell program; the other one needs to be told"""
    image_pull_policy: str = Field(default="IfNotPresent", pattern="^(Always|IfNotPresent|Never)$")
    cpu: str = "100m"
    memory: str = "64Mi"
    """requests and limits, where the pod's own containers have them; never more than these have together"""
    run_as_user: int | None = Field(default=65532, gt=0)
    """None leaves the user to the image, or to the cluster's admission"""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.program is Program.PYTHON and not self.image:
            raise ValueError("image: Required value: the operator's image, when program is python")
        for field in ("cpu", "memory"):
            if quantity(getattr(self, field)) is None:
                raise ValueError(f"{field}: Invalid value: {getattr(self, field)!r}: must be a quantity such as 100m")
        return self

    @property
    def command(self) -> list[str]:
        """The command of the container."""
        if self.program is Program.PYTHON:
            return ["python", "-m", "grove.initc", STARTUP_FILE]
        return ["/bin/sh", "-c", _SHELL_PROGRAM]


class Hold:
    """Holds the pods of one PodClique from their creation on.

    `waits_for` names the cliques that are not ready yet; "" when all are, then the pod is born released.
    """

    def __init__(self, settings: InitContainer, waits_for: str) -> None:
        self._settings = settings
        self._waits_for = waits_for

    def apply(self, pod: dict[str, Any]) -> None:
        """Put the init container after the pod's own, its volume after the pod's own, and the annotation."""
        spec = pod["spec"]
        volume = _free_name(labels.POD_INFO_VOLUME, spec.get("volumes") or ())
        spec["initContainers"] = [*(spec.get("initContainers") or ()), _container(self._settings, spec, volume)]
        spec["volumes"] = [*(spec.get("volumes") or ()), _volume(volume)]
        state = {labels.STARTUP_WAITING_FOR: self._waits_for} if self._waits_for else _RELEASED
        annotations = pod["metadata"].get("annotations", {})
        pod["metadata"]["annotations"] = {k: v for k, v in annotations.items() if k not in _FILES.values()} | state


_RELEASED = {labels.STARTUP: labels.STARTUP_RELEASED}


def _container(settings: InitContainer, spec: dict[str, Any], volume: str) -> dict[str, Any]:
    """The container, fit for namespaces that enforce the restricted Pod Security Standard."""
    security: dict[str, Any] = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    if settings.run_as_user is not None and not (spec.get("securityContext") or {}).get("runAsUser"):
        security["runAsUser"] = settings.run_as_user
    return {
        "name": labels.INIT_CONTAINER,
        "image": settings.image or SHELL_IMAGE,
        "imagePullPolicy": settings.image_pull_policy,
        "command": settings.command,
        "resources": _resources(settings, spec),
        "securityContext": security,
        "volumeMounts": [{"name": volume, "mountPath": labels.POD_INFO_PATH, "readOnly": True}],
    }


def _volume(name: str) -> dict[str, Any]:
    items = [
        {"path": path.rpartition("/")[2], "fieldRef": {"fieldPath": f"metadata.annotations['{annotation}']"}}
        for path, annotation in _FILES.items()
    ]
    return {"name": name, "downwardAPI": {"items": items}}


def _resources(settings: InitContainer, spec: dict[str, Any]) -> dict[str, Any]:
    """Requests and limits that leave the pod's quality of service, and what it asks of a node, as they are.

    A number is given where all of the pod's own containers have one, since a quota may demand that, and Guaranteed
    does. It is at most the sum of theirs: they run later, so the pod as a whole needs no more than without us.
    """
    if spec.get("resources"):  # the pod's own, for all containers together
        return {}
    result: dict[str, dict[str, str]] = {}
    for kind in ("requests", "limits"):
        for name, own in (("cpu", settings.cpu), ("memory", settings.memory)):
            given = [_given(container, kind, name) for container in spec["containers"]]
            amounts = [amount for value in given if value is not None and (amount := quantity(value)) is not None]
            wanted = quantity(own)
            assert wanted is not None, "checked with the configuration"
            if len(amounts) == len(given):
                result.setdefault(kind, {})[name] = own if wanted <= sum(amounts) else _cheapest(given)
    return result


def _given(container: dict[str, Any], kind: str, name: str) -> str | None:
    """A request or limit of a container; a limit stands for a request that is missing, as in the API."""
    resources = container.get("resources") or {}
    value = (resources.get(kind) or {}).get(name)
    if value is None and kind == "requests":
        value = (resources.get("limits") or {}).get(name)
    return None if value is None else str(value)


def _cheapest(given: Sequence[str | None]) -> str:
    return min((value for value in given if value is not None), key=lambda value: quantity(value) or 0)


def _free_name(name: str, volumes: Sequence[dict[str, Any]]) -> str:
    """`name`, with dashes where the user has volumes of that name."""
    taken = {volume.get("name") for volume in volumes}
    while name in taken:
        name = f"grove-{name}"
    return name
