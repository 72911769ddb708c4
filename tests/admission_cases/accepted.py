"""Sets that are accepted, some with a warning."""

from __future__ import annotations

from tests.admission_cases.case import CLIQUES, Case, a_set, clique, group, warned, with_pod

CASES = (
    Case(
        "cliques and groups",
        a_set(
            clique("a", replicas=3, minAvailable=2),
            clique("b"),
            podCliqueScalingGroups=[group("g", "b", replicas=2)],
        ),
    ),
    Case("a generated name", a_set() | {"metadata": {"generateName": "s-"}}),
    Case("name that starts with a digit", a_set(name="7b")),
    Case("45 characters", a_set(clique("c" * 25), name="s" * 20)),
    Case(
        "45 characters with a group",
        a_set(clique("c" * 15), podCliqueScalingGroups=[group("g" * 10, "c" * 15)], name="s" * 20),
    ),
    Case(
        "host name of 62 characters",
        a_set(
            clique("c" * 15, replicas=10_000, minAvailable=1),
            podCliqueScalingGroups=[group("g" * 15, "c" * 15, replicas=10_000)],
            name="s" * 15,
            replicas=10_000,
        ),
    ),
    Case("no role names", a_set(clique("a"), clique("b"), clique("c", roleName=""))),
    Case("idle clique", a_set(clique(replicas=0), clique("b", replicas=0, minAvailable=3))),
    Case("idle group", a_set(podCliqueScalingGroups=[group("g", "a", replicas=0, minAvailable=2)])),
    Case("idle and scaled", a_set(clique(replicas=0, minAvailable=2, autoScalingConfig={"maxReplicas": 2}))),
    Case("bounds all equal", a_set(clique(replicas=2, autoScalingConfig={"minReplicas": 2, "maxReplicas": 2}))),
    Case(
        "group below its template replicas",
        a_set(podCliqueScalingGroups=[group("g", "a", replicas=3, scaleConfig={"minReplicas": 1, "maxReplicas": 2})]),
    ),
    Case("largest number", a_set(clique(minAvailable=1, replicas=10_000))),
    Case("durations", a_set(terminationDelay="1h30m0.5s")),
    Case("longest duration", a_set(terminationDelay="2562047h")),
    Case(
        "startsAfter",
        a_set(
            clique("a"),
            clique("b", startsAfter=["a"]),
            clique("c", startsAfter=["b", "a"]),
            cliqueStartupType="CliqueStartupTypeExplicit",
        ),
    ),
    Case(
        "same variable in two containers",
        with_pod(containers=[{"name": "x", "env": [{"name": "A"}]}, {"name": "y", "env": [{"name": "A"}]}]),
    ),
    Case(
        "odd variable names",
        with_pod(containers=[{"name": "x", "env": [{"name": name} for name in ("a.b-c_D", "-", "_")]}]),
    ),
    Case(
        "one scheduler",
        a_set(clique("a", podSpec={"containers": [{"name": "m"}], "schedulerName": "default-scheduler"}), clique("b")),
    ),
    Case(
        "labels and annotations",
        a_set(
            {
                **clique(),
                "labels": {"example.com/App_1": "v1.2-x", "empty": "", "x" * 63: "y" * 63},
                "annotations": {"Example.com/A": "größe → 日本\n"},
            }
        ),
    ),
    Case(
        "other names with numbers",
        a_set(
            clique("g-x-a"),
            clique("a"),
            clique("g-00-a"),
            clique("g-0-a-0"),
            podCliqueScalingGroups=[group("g", "a")],
        ),
    ),
    Case(
        "clique and group of one name",
        a_set(clique("a", autoScalingConfig={"maxReplicas": 2}), clique("b"), podCliqueScalingGroups=[group("a", "b")]),
    ),
    Case("gates of others", with_pod(schedulingGates=[{"name": "example.com/quota"}])),
    Case(
        "nulls",
        a_set(
            {**clique(replicas=None, autoScalingConfig=None), "labels": None, "annotations": None},
            podCliqueScalingGroups=None,
            topologyConstraint=None,
        ),
    ),
    Case("status of any kind", a_set() | {"status": {"replicas": "many"}}),
    warned(
        "startsAfter that is not read",
        a_set(clique("a"), clique("b", startsAfter=["a"])),
        [
            (
                f"{CLIQUES}[1].spec.startsAfter: has no effect with CliqueStartupTypeAnyOrder, "
                "only with CliqueStartupTypeExplicit"
            )
        ],
    ),
    warned(
        "startsAfter that is not read, nor right",
        a_set(
            clique("a", startsAfter=["b"]),
            clique("b", startsAfter=["a", "x", "b"]),
            cliqueStartupType="CliqueStartupTypeInOrder",
        ),
        [
            (
                f"{CLIQUES}[0].spec.startsAfter: has no effect with CliqueStartupTypeInOrder, "
                "only with CliqueStartupTypeExplicit"
            ),
            (
                f"{CLIQUES}[1].spec.startsAfter: has no effect with CliqueStartupTypeInOrder, "
                "only with CliqueStartupTypeExplicit"
            ),
            f"{CLIQUES}[1].spec.startsAfter[1]: Not found: there is no clique of this name in the template",
            f"{CLIQUES}[1].spec.startsAfter[2]: Invalid value: a clique cannot start after itself",
            (
                f"{CLIQUES}[0].spec.startsAfter: Invalid value: the cliques wait for each other: a → b → a; "
                "remove one of these"
            ),
        ],
    ),
    warned(
        "restart policy that lets pods end",
        with_pod(restartPolicy="Never"),
        [
            (
                f"{CLIQUES}[0].spec.podSpec.restartPolicy: with Never a pod can end; "
                "Grove then replaces the whole pod, so its work should not end"
            )
        ],
    ),
    warned(
        "host name",
        with_pod(hostname="a", subdomain=""),
        [f"{CLIQUES}[0].spec.podSpec.hostname: has no effect: Grove sets it, so that pods find each other by name"],
    ),
    warned(
        "misspelled field",
        a_set(clique(startAfter=["a"])),
        [f"{CLIQUES}[0].spec.startAfter: unknown field, has no effect; did you mean startsAfter?"],
    ),
    warned(
        "fields of nobody",
        {**a_set(zzz=1), "qqq": {}},
        [
            "spec.template.zzz: unknown field, has no effect",
            "qqq: unknown field, has no effect",
        ],
    ),
)
