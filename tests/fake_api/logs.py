"""What containers wrote, as the kubelet gives it away."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.fake_api.objects import ApiStatus, Object


@dataclass
class Logs:
    """Logs by pod and container, of those that run and of those before their last restart."""

    now: dict[tuple[str, str], str] = field(default_factory=dict)
    previous: dict[tuple[str, str], str] = field(default_factory=dict)

    def read(self, pod: Object, query: Mapping[str, str]) -> bytes:
        """Answer a request for a pod's log; raises ApiStatus."""
        name, spec = pod["metadata"]["name"], pod["spec"]
        names = [one["name"] for key in ("initContainers", "containers") for one in spec.get(key) or ()]
        container = query.get("container", "")
        if not container and len(spec["containers"]) > 1:
            text = f"a container name must be specified for pod {name}, choose one of: {names}"
            raise ApiStatus(400, "BadRequest", text)
        container = container or spec["containers"][0]["name"]
        if container not in names:
            raise ApiStatus(400, "BadRequest", f"container {container} is not valid for pod {name}")
        before = query.get("previous") == "true"
        text = (self.previous if before else self.now).get((name, container), "")
        if before and not text:
            text = f'previous terminated container "{container}" in pod "{name}" not found'
            raise ApiStatus(400, "BadRequest", text)
        if not text:
            text = f'container "{container}" in pod "{name}" is waiting to start: PodInitializing'
            raise ApiStatus(400, "BadRequest", text)
        lines = text.splitlines(keepends=True)
        content = "".join(lines[-int(query.get("tailLines", len(lines))) :]).encode()
        return content[: int(query.get("limitBytes", len(content)))]
