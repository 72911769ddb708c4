"""The pods of a clique, as far as Grove depends on them; the rest of a podSpec is the API server's to judge."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from grove.admission import formats
from grove.admission.facts import Facts
from grove.admission.fields import Field, FieldError, Finding, cliques

_RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_CONTAINER_LISTS: Final = ("initContainers", "containers")


def pod_shape(root: Field) -> Iterator[Finding]:
    """A pod has containers, and the parts Grove adds to are lists of objects with a name."""
    for pod in _pods(root):
        if pod["containers"].value in (None, []):
            yield pod["containers"].required("a pod needs at least one container")
        for key in (*_CONTAINER_LISTS, "schedulingGates"):
            yield from _named_objects(pod[key])
        for container in _containers(pod):
            yield from _named_objects(container["env"])


def environment(root: Field) -> Iterator[Finding]:
    """Variables have a proper name and a container has each once (api rules V36, V37)."""
    for pod in _pods(root):
        for container in _containers(pod):
            seen: set[str] = set()
            for variable in container["env"]:
                name = variable["name"]
                if not name.text:
                    continue
                if problem := formats.env_name_problem(name.text):
                    yield name.invalid(problem)
                if name.text in seen:
                    yield name.duplicate("a container can have a variable once")
                seen.add(name.text)


def one_scheduler(root: Field, facts: Facts) -> Iterator[Finding]:
    """All cliques use the same scheduler, as one gang cannot have two; left out means the default (api rule V40)."""
    first: tuple[str, Field] | None = None
    for pod in _pods(root):
        field = pod["schedulerName"]
        if field.given and field.text is None:
            yield field.invalid("must be a string")
            continue
        name = field.text or facts.default_scheduler
        if not facts.enables(name):
            continue  # one that does not exist is told so; that the others differ from it says nothing more
        if first is None:
            first = name, field
        elif name != first[0]:
            yield field.invalid(f"all cliques must use one scheduler, but {first[1].path} means {first[0]!r}")


def restart_policy(root: Field) -> Iterator[Finding]:
    """The restart policy is one that exists; a warning where it lets containers end for good (api rule W1)."""
    for pod in _pods(root):
        field = pod["restartPolicy"]
        if field.value not in _RESTART_POLICIES:
            yield field.not_supported(_RESTART_POLICIES)
        elif field.value != "Always":
            yield field.warning(
                f"with {field.value} a pod can end; Grove then replaces the whole pod, so its work should not end"
            )


def names_are_given(root: Field) -> Iterator[Finding]:
    """A warning for what Grove sets itself: host name and subdomain."""
    for pod in _pods(root):
        for key in ("hostname", "subdomain"):
            if pod[key].value:
                yield pod[key].warning("has no effect: Grove sets it, so that pods find each other by name")


def placed_by_scheduler(root: Field) -> Iterator[Finding]:
    """No nodeName and no topologySpreadConstraints: they would tear gangs apart (api rules V34, V35, on creation)."""
    for pod in _pods(root):
        if pod["topologySpreadConstraints"].given:
            yield pod["topologySpreadConstraints"].invalid("must be left out: use topologyConstraint of the template")
        if pod["nodeName"].value:
            yield pod["nodeName"].invalid("must be left out: the scheduler places the pods of a gang together")


def _pods(root: Field) -> Iterator[Field]:
    for clique in cliques(root):
        pod = clique["spec"]["podSpec"]
        if isinstance(pod.value, dict):
            yield pod


def _containers(pod: Field) -> Iterator[Field]:
    for key in _CONTAINER_LISTS:
        yield from pod[key]


def _named_objects(field: Field) -> Iterator[FieldError]:
    if field.given and not isinstance(field.value, list):
        yield field.invalid("must be a list")
    for item in field:
        name = item["name"]
        if not isinstance(item.value, dict):
            yield item.invalid("must be an object")
        elif name.value in (None, ""):
            yield name.required("")
        elif name.text is None:
            yield name.invalid("must be a string")
