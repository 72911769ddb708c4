"""Names, labels and annotations."""

from __future__ import annotations

from tests.admission_cases.case import CLIQUES, GROUPS, Case, a_set, clique, group, with_metadata

ANY_LABEL = (
    "must be lower case letters, digits and '-', with a letter or digit at both ends, as it goes into host names"
)
KEY_RULE = (
    "the key must be 1 to 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends, "
    "after an optional DNS name and '/'"
)

CASES = (
    Case(
        "no name",
        with_metadata(name=""),
        ["metadata.name: Required value: a DNS label such as my-model"],
        schema="metadata.name: Required value: name or generateName is required",
    ),
    Case(
        "name with a dot",
        with_metadata(name="a.b"),
        [f'metadata.name: Invalid value: "a.b": {ANY_LABEL}'],
        schema='metadata.name: Invalid value: "a.b"',
    ),
    Case(
        "name in capitals",
        with_metadata(name="Model"),
        [f'metadata.name: Invalid value: "Model": {ANY_LABEL}'],
        schema='metadata.name: Invalid value: "Model"',
    ),
    Case(
        "name ends with a dash",
        with_metadata(name="a-"),
        [f'metadata.name: Invalid value: "a-": {ANY_LABEL}'],
        schema='metadata.name: Invalid value: "a-"',
    ),
    Case(
        "namespace",
        with_metadata(namespace="my_ns"),
        [f'metadata.namespace: Invalid value: "my_ns": {ANY_LABEL}'],
        schema="the namespace of the provided object does not match the namespace sent on the request",
    ),
    Case(
        "clique without a name",
        a_set({"spec": clique()["spec"]}),
        [f"{CLIQUES}[0].name: Required value"],
        schema=f"{CLIQUES}[0].name: Required value",
    ),
    Case(
        "clique with a blank name",
        a_set(clique("")),
        [f"{CLIQUES}[0].name: Required value: a DNS label such as worker"],
        schema=f"{CLIQUES}[0].name: Required value: a DNS label such as worker",
    ),
    Case(
        "clique with an underscore",
        a_set(clique("my_role")),
        [f'{CLIQUES}[0].name: Invalid value: "my_role": {ANY_LABEL}'],
        schema=f'{CLIQUES}[0].name: Invalid value: "my_role"',
    ),
    Case(
        "clique with a dot",
        a_set(clique("a.b")),
        [f'{CLIQUES}[0].name: Invalid value: "a.b": {ANY_LABEL}'],
        schema=f'{CLIQUES}[0].name: Invalid value: "a.b"',
    ),
    Case(
        "unicode digits are no digits",
        a_set(clique("a٣")),
        [f'{CLIQUES}[0].name: Invalid value: "a٣": {ANY_LABEL}'],
        schema=f'{CLIQUES}[0].name: Invalid value: "a٣"',
    ),
    Case(
        "group with a dot",
        a_set(groups=[group("g.h", "a")]),
        [f'{GROUPS}[0].name: Invalid value: "g.h": {ANY_LABEL}'],
        schema=f'{GROUPS}[0].name: Invalid value: "g.h"',
    ),
    Case(
        "cliques of the same name",
        a_set(clique("a"), clique("b"), clique("a", roleName="c")),
        [f'{CLIQUES}[2].name: Duplicate value: "a": clique names must be unique'],
        schema=f'{CLIQUES}[2]: Duplicate value: {{"name":"a"}}',
    ),
    Case(
        "same role",
        a_set(clique("a", roleName="x"), clique("b", roleName="x")),
        [
            (
                f'{CLIQUES}[1].spec.roleName: Duplicate value: "x": role names must be unique; '
                "one that is left out is the clique's name"
            )
        ],
        schema=f"{CLIQUES}: Invalid value: role names must be unique",
    ),
    Case(
        "role of another clique's name",
        a_set(clique("a"), clique("b", roleName="a")),
        [
            (
                f'{CLIQUES}[1].spec.roleName: Duplicate value: "a": role names must be unique; '
                "one that is left out is the clique's name"
            )
        ],
    ),
    Case(
        "groups of the same name",
        a_set(clique("a"), clique("b"), groups=[group("g", "a"), group("g", "b")]),
        [f'{GROUPS}[1].name: Duplicate value: "g": scaling group names must be unique'],
        schema=f'{GROUPS}[1]: Duplicate value: {{"name":"g"}}',
    ),
    Case(
        "46 characters",
        a_set(clique("c" * 26), name="s" * 20),
        [
            (
                f'{CLIQUES}[0].name: Invalid value: "{"c" * 26}": the names {"s" * 20}, {"c" * 26} have 46 characters '
                f"together, 45 at most fit into a host name ({'s' * 20}-0-{'c' * 26}-0)"
            )
        ],
        schema=f"{CLIQUES}: Invalid value: the names of the set and of a clique can have 45",
    ),
    Case(
        "46 characters with a group",
        a_set(clique("c" * 16), groups=[group("g" * 10, "c" * 16, replicas=2)], name="s" * 20),
        [
            (
                f'{CLIQUES}[0].name: Invalid value: "{"c" * 16}": the names {"s" * 20}, {"g" * 10}, {"c" * 16} have 46 '
                f"characters together, 45 at most fit into a host name ({'s' * 20}-0-{'g' * 10}-1-{'c' * 16}-0)"
            )
        ],
        schema=f"{GROUPS}: Invalid value: the names of the set, of a scaling group and of a clique can have 45",
    ),
    Case(
        "a set's name that leaves no room",
        a_set(name="s" * 45),
        [
            (
                f'metadata.name: Invalid value: "{"s" * 45}": 45 characters leave no room for clique names: '
                "must be fewer than 45"
            )
        ],
        schema=f"{CLIQUES}: Invalid value: the names of the set and of a clique can have 45",
    ),
    Case(
        "indices that leave no room",
        a_set(
            clique("c" * 15, replicas=10_000, minAvailable=1),
            groups=[group("g" * 15, "c" * 15, scaleConfig={"maxReplicas": 1_000_001})],
            name="s" * 15,
            replicas=10_000,
        ),
        [
            (
                f'{CLIQUES}[0].name: Invalid value: "{"c" * 15}": the longest host name would be '
                f"{'s' * 15}-9999-{'g' * 15}-1000000-{'c' * 15}-9999: 65 characters, 63 at most; "
                "shorten the names or lower the replicas"
            )
        ],
    ),
    Case(
        "two cliques that make one PodClique",
        a_set(clique("g-0-a"), clique("a"), groups=[group("g", "a")]),
        [f'{CLIQUES}[1].name: Invalid value: "a": its pods would be called like those of g-0-a; rename one'],
    ),
    Case(
        "two groups that make one PodClique",
        a_set(clique("7-a"), clique("a"), groups=[group("g", "7-a"), group("g-3", "a")]),
        [f'{CLIQUES}[1].name: Invalid value: "a": its pods would be called like those of 7-a; rename one'],
    ),
    Case(
        "two autoscalers of one name",
        a_set(
            clique("a", autoScalingConfig={"maxReplicas": 2}),
            clique("b"),
            groups=[group("a", "b", scaleConfig={"maxReplicas": 2})],
        ),
        [
            (
                f'{GROUPS}[0].name: Invalid value: "a": its autoscaler would be called like that of the clique of this '
                "name; rename one"
            )
        ],
    ),
    Case(
        "label key",
        with_metadata(labels={"Ü/x": "v"}),
        ["metadata.labels[Ü/x]: Invalid value: \"Ü/x\": the part before '/' must be a DNS name such as example.com"],
        schema='metadata.labels: Invalid value: "Ü/x"',
    ),
    Case(
        "label key without a name",
        with_metadata(labels={"example.com/": "v"}),
        [f'metadata.labels[example.com/]: Invalid value: "example.com/": {KEY_RULE}'],
        schema='metadata.labels: Invalid value: "example.com/"',
    ),
    Case(
        "label value",
        a_set({**clique(), "labels": {"app": "größe"}}),
        [
            (
                f'{CLIQUES}[0].labels.app: Invalid value: "größe": a label\'s value must be at most 63 letters, '
                "digits, '-', '_' and '.', with a letter or digit at both ends"
            )
        ],
    ),
    Case(
        "annotation key",
        a_set({**clique(), "annotations": {"a b": ""}}),
        [f'{CLIQUES}[0].annotations[a b]: Invalid value: "a b": {KEY_RULE}'],
    ),
    Case(
        "annotations above 256 KiB",
        a_set(groups=[group("g", "a", annotations={"k": "ü" * 131_072})]),
        [f"{GROUPS}[0].annotations: Too long: keys and values have 262145 bytes together, at most 262144"],
    ),
)
