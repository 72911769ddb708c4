"""The pods of cliques, and values of the wrong type."""

from __future__ import annotations

from tests.admission_cases.case import CLIQUES, Case, a_set, clique, with_env, with_pod

ENV_RULE = "must be letters, digits, '_', '-' and '.', and start with none of a digit and '..'"

CASES = (
    Case(
        "no podSpec",
        a_set({"name": "a", "spec": {}}),
        [f"{CLIQUES}[0].spec.podSpec: Required value"],
        schema=f"{CLIQUES}[0].spec.podSpec: Required value",
    ),
    Case(
        "no containers",
        with_pod(containers=[]),
        [f"{CLIQUES}[0].spec.podSpec.containers: Required value: a pod needs at least one container"],
    ),
    Case(
        "container without a name",
        with_pod(initContainers=[{"image": "x"}]),
        [f"{CLIQUES}[0].spec.podSpec.initContainers[0].name: Required value"],
        schema=f"{CLIQUES}[0].spec.podSpec.initContainers[0].name: Required value",
    ),
    Case(
        "containers of odd types",
        with_pod(containers=["main", {"name": "b", "env": {"A": "b"}}], schedulingGates=[{"name": 3}]),
        [
            f'{CLIQUES}[0].spec.podSpec.containers[0]: Invalid value: "main": must be an object',
            f"{CLIQUES}[0].spec.podSpec.schedulingGates[0].name: Invalid value: 3: must be a string",
            f'{CLIQUES}[0].spec.podSpec.containers[1].env: Invalid value: {{"A": "b"}}: must be a list',
        ],
        schema=f'{CLIQUES}[0].spec.podSpec.schedulingGates[0].name: Invalid value: "integer"',
    ),
    Case(
        "variable starts with a digit",
        with_env("1A"),
        [f'{CLIQUES}[0].spec.podSpec.containers[0].env[0].name: Invalid value: "1A": {ENV_RULE}'],
    ),
    Case(
        "variable starts with two dots",
        with_env("A", "..b"),
        [f'{CLIQUES}[0].spec.podSpec.containers[0].env[1].name: Invalid value: "..b": {ENV_RULE}'],
    ),
    Case(
        "variable with a space",
        with_env("A B"),
        [f'{CLIQUES}[0].spec.podSpec.containers[0].env[0].name: Invalid value: "A B": {ENV_RULE}'],
    ),
    Case(
        "variable twice in a container",
        with_env("A", "B", "A"),
        [
            (
                f'{CLIQUES}[0].spec.podSpec.containers[0].env[2].name: Duplicate value: "A": '
                "a container can have a variable once"
            )
        ],
        schema=f'{CLIQUES}[0].spec.podSpec.containers[0].env[2]: Duplicate value: {{"name":"A"}}',
    ),
    Case(
        "variable twice in an init container",
        with_pod(initContainers=[{"name": "i", "env": [{"name": "A"}, {"name": "A"}]}]),
        [
            (
                f'{CLIQUES}[0].spec.podSpec.initContainers[0].env[1].name: Duplicate value: "A": '
                "a container can have a variable once"
            )
        ],
        schema=f'{CLIQUES}[0].spec.podSpec.initContainers[0].env[1]: Duplicate value: {{"name":"A"}}',
    ),
    Case(
        "two schedulers",
        a_set(
            clique("a", podSpec={"containers": [{"name": "m"}], "schedulerName": "mine"}),
            clique("b"),
        ),
        [
            (
                f"{CLIQUES}[1].spec.podSpec.schedulerName: Invalid value: null: all cliques must use one scheduler, "
                f"but {CLIQUES}[0].spec.podSpec.schedulerName means 'mine'"
            )
        ],
    ),
    Case(
        "restart policy",
        with_pod(restartPolicy="Sometimes"),
        [
            (
                f'{CLIQUES}[0].spec.podSpec.restartPolicy: Unsupported value: "Sometimes": '
                'supported values: "Always", "OnFailure", "Never"'
            )
        ],
    ),
    Case(
        "node name",
        with_pod(nodeName="n1"),
        [
            (
                f'{CLIQUES}[0].spec.podSpec.nodeName: Invalid value: "n1": must be left out: '
                "the scheduler places the pods of a gang together"
            )
        ],
    ),
    Case(
        "topology spread",
        with_pod(topologySpreadConstraints=[]),
        [
            (
                f"{CLIQUES}[0].spec.podSpec.topologySpreadConstraints: Invalid value: []: must be left out: "
                "use topologyConstraint of the template"
            )
        ],
    ),
    Case(
        "types",
        a_set(clique(replicas="two"), clique("b", startsAfter="a"), headlessServiceConfig=[]),
        [
            f'{CLIQUES}[0].spec.replicas: Invalid value: "two": must be a whole number',
            f'{CLIQUES}[1].spec.startsAfter: Invalid value: "a": must be a list',
            "spec.template.headlessServiceConfig: Invalid value: []: must be an object",
        ],
        schema=f"{CLIQUES}[0].spec.replicas: Invalid value",
    ),
    Case(
        "a clique that is no object",
        a_set(clique(), "b"),  # type: ignore[arg-type]
        [f'{CLIQUES}[1]: Invalid value: "b": must be an object'],
        schema=f"{CLIQUES}[1]: Invalid value",
    ),
)
