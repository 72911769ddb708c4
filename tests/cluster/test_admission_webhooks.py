"""The operator's webhooks as users meet them: what kubectl says, which certificate is shown, what goes on without."""

import base64
import copy
import json
import os
import random
import secrets
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from grove.plan.kinds import PODCLIQUESET
from grove.webhooks.certificates import Certificates, trusts, up_to_date
from grove.webhooks.configurations import MUTATING, VALIDATING
from grove.webhooks.provision import SECRET
from tests.cluster.harness import ROOT, ApiStatus, Harness, running_cluster
from tests.cluster.operators import OperatorProcess
from tests.cluster.webhooks import configured, free_port, install, refusal, shown, wait_called
from tests.cluster.workloads import clique, podcliqueset
from tests.cluster.workspace import MERGE, Object

NAME = "grove-webhook-server-cert"
REPEAT = int(os.environ.get("GROVE_TEST_REPEAT", "1"))


class Stage:
    """A cluster whose API server calls an operator's webhooks."""

    def __init__(self, cluster: Harness, folder: Path) -> None:
        self.cluster = cluster
        self.port = free_port()
        self._folder = folder
        self.operator = self.new_operator("operator", self.port)

    def new_operator(self, name: str, port: int, **webhooks: Any) -> OperatorProcess:
        folder = self._folder / name
        folder.mkdir()
        return OperatorProcess(self.cluster.kubeconfig, folder, configured(port, webhooks=webhooks))

    @property
    def secret(self) -> Certificates | None:
        """What the Secret holds."""
        return Certificates.from_secret(self.cluster.api("GET", SECRET.path("default", NAME)).get("data"))

    def write_secret(self, data: dict[str, str | None]) -> None:
        self.cluster.api("PATCH", SECRET.path("default", NAME), {"data": data}, MERGE)

    def bundles(self) -> list[bytes]:
        """The `caBundle` of every webhook."""
        found = [item for kind in (MUTATING, VALIDATING) for item in self.cluster.api("GET", kind.path())["items"]]
        return [base64.b64decode(item["webhooks"][0]["clientConfig"].get("caBundle", "")) for item in found]

    def shows(self, certificate: bytes, port: int = 0) -> None:
        """Wait until clients see this certificate."""
        wanted = certificate.decode().strip()
        self.cluster.wait(lambda: shown(port or self.port).strip() == wanted, message="the certificate is shown")

    @contextmanager
    def without_a_gap(self) -> Iterator[None]:
        """Within the block sets are admitted at all times; fails the test otherwise."""
        failures, over = [], threading.Event()
        obj = podcliqueset("gap", clique("a", 1))

        def ask() -> None:
            while not over.is_set():
                if message := refusal(self.cluster, obj):
                    failures.append(message)

        thread = threading.Thread(target=ask)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
        assert failures == []


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A cluster of its own, since webhooks are for a whole cluster."""
    folder = tmp_path_factory.mktemp("webhooks")
    with running_cluster(folder / "cluster", nodes=5) as cluster:
        cluster.kubectl("apply", "-f", ROOT / "crds")
        cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
        stage = Stage(cluster, folder)
        install(cluster, stage.port)
        yield stage
        if stage.operator.is_running:
            stage.operator.stop()


@pytest.fixture
def stage(running: Stage) -> Stage:
    """The stage with its operator at work."""
    if not running.operator.is_running:
        running.operator.start()
    wait_called(running.cluster)
    return running


@pytest.fixture
def namespace(stage: Stage) -> str:
    """A namespace of its own."""
    name = f"test-{secrets.token_hex(4)}"
    stage.cluster.api("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
    stage.cluster.wait(lambda: stage.cluster.api("GET", account), message="the namespace has its service account")
    return name


def of(obj: Object, **container: Any) -> Object:
    """A set whose first clique's container has these fields."""
    obj["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["containers"][0].update(container)
    return obj


def with_pod(**pod_spec: Any) -> Object:
    return podcliqueset("p", clique("a", 1), clique("b", 1, podSpec=pod_spec))


# What users read


def test_defaults_are_stored_and_said_again_change_nothing(stage: Stage, namespace: str) -> None:
    """Every row of API doc 2.1."""
    autoscaler = {"maxReplicas": 9}
    manifest = json.dumps(
        podcliqueset(
            "d",
            clique("a", 2, autoScalingConfig=autoscaler),
            {"name": "left-out", "spec": {"podSpec": {"containers": [{"name": "m", "image": "i"}]}}},
            clique("idle", 0),
            clique("b", 1),
            {"name": "g", "cliqueNames": ["b"], "replicas": 3, "scaleConfig": autoscaler},
        )
    )
    stage.cluster.kubectl("apply", "-n", namespace, "-f", "-", input=manifest)
    stored = stage.cluster.api("GET", PODCLIQUESET.path(namespace, "d"))
    template = stored["spec"]["template"]
    assert template["terminationDelay"] == "4h"
    assert template["headlessServiceConfig"] == {"publishNotReadyAddresses": True}
    first, left_out, idle, _ = (one["spec"] for one in template["cliques"])
    pod = left_out["podSpec"]
    assert (pod["restartPolicy"], pod["terminationGracePeriodSeconds"]) == ("Always", 30)
    assert (first["roleName"], first["minAvailable"], first["autoScalingConfig"]["minReplicas"]) == ("a", 2, 2)
    assert (left_out["replicas"], left_out["minAvailable"]) == (1, 1)
    assert (idle["replicas"], idle["minAvailable"]) == (0, 1)
    (group,) = template["podCliqueScalingGroups"]
    assert (group["minAvailable"], group["scaleConfig"]["minReplicas"]) == (1, 3)
    stage.cluster.kubectl("apply", "-n", namespace, "-f", "-", input=manifest)
    again = stage.cluster.api("GET", PODCLIQUESET.path(namespace, "d"))
    assert again["metadata"]["generation"] == stored["metadata"]["generation"] == 1


POD = "spec.template.cliques[1].spec.podSpec"
IMPOSSIBLE = [
    ({"volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/x"}}]}, f"{POD}.volumes[0].hostPath"),
    ({"activeDeadlineSeconds": -1}, f"{POD}.activeDeadlineSeconds"),
    ({"tolerations": [{"key": "a", "operator": "Like"}]}, f"{POD}.tolerations[0].operator"),
    (
        {"containers": [{"name": "m", "image": "i", "ports": [{"containerPort": 99999}]}]},
        f"{POD}.containers[0].ports[0].containerPort",
    ),
    (
        {"containers": [{"name": "m", "image": "i", "volumeMounts": [{"name": "nope", "mountPath": "/x"}]}]},
        f"{POD}.containers[0].volumeMounts[0].name",
    ),
    (
        {"containers": [{"name": "m", "image": "i", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}]},
        f"{POD}.containers[0].resources.requests",
    ),
    (
        {
            "containers": [
                {"name": "m", "image": "i", "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "no"}}}]}
            ]
        },
        f"{POD}.containers[0].env[0].valueFrom.fieldRef.fieldPath",
    ),
]


@pytest.mark.parametrize(("pod_spec", "field"), IMPOSSIBLE, ids=[field for _, field in IMPOSSIBLE])
def test_a_pod_that_can_never_be_is_an_error_of_its_clique(stage: Stage, pod_spec: Object, field: str) -> None:
    message = refusal(stage.cluster, with_pod(**pod_spec))
    assert f"denied the request: {field}: " in message


def test_what_may_come_to_be_allowed_is_a_warning(stage: Stage, namespace: str) -> None:
    cluster = stage.cluster
    level = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    cluster.api("PATCH", f"/api/v1/namespaces/{namespace}", level, MERGE)
    said = cluster.wait(lambda: warnings(cluster, podcliqueset("w", clique("a", 1)), namespace), message="it warns")
    assert said.startswith('Warning: spec.template.cliques[0]: pods would be refused now: violates PodSecurity "restr')


@pytest.mark.parametrize(
    ("pod_spec", "why"),
    [
        ({"priorityClassName": "nope"}, "no PriorityClass with name nope was found"),
        ({"serviceAccountName": "nope"}, 'serviceaccount "nope" not found'),
    ],
)
def test_what_is_not_there_yet_is_a_warning(stage: Stage, pod_spec: Object, why: str) -> None:
    said = warnings(stage.cluster, with_pod(**pod_spec), "default")
    assert said.startswith("Warning: spec.template.cliques[1]: pods would be refused now: ")
    assert why in said


def test_a_priority_that_is_not_there_yet_is_a_warning_at_the_set(stage: Stage) -> None:
    obj = podcliqueset("p", clique("a", 1), clique("b", 1), priorityClassName="nope")
    said = "pods would be refused now: no PriorityClass with name nope was found"
    assert warnings(stage.cluster, obj, "default").splitlines() == [
        f"Warning: spec.template.priorityClassName: {said}",
        "error: 1 warning received",
    ]


CPU = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}


@pytest.mark.parametrize(
    ("metric", "field"),
    [
        ({"type": "Resource", "resource": {**CPU, "target": {"type": "Utilization"}}}, "metrics[0].resource.target"),
        ({"type": "Pods", "resource": CPU}, "metrics[0].pods"),
    ],
)
def test_a_metric_that_can_never_be_is_an_error_of_its_autoscaler(stage: Stage, metric: Object, field: str) -> None:
    config = {"maxReplicas": 3, "metrics": [metric]}
    obj = podcliqueset(
        "m",
        clique("a", 1, autoScalingConfig=config),
        clique("b", 1),
        podCliqueScalingGroups=[{"name": "g", "cliqueNames": ["b"], "scaleConfig": config}],
    )
    message = refusal(stage.cluster, obj)
    assert f"spec.template.cliques[0].spec.autoScalingConfig.{field}" in message
    assert f"spec.template.podCliqueScalingGroups[0].scaleConfig.{field}" in message


def warnings(cluster: Harness, obj: Object, namespace: str) -> str:
    """What kubectl warns about when it creates a set, which is accepted."""
    words = ["create", "-n", namespace, "--dry-run=server", "-f", "-", "--warnings-as-errors"]
    done = cluster.kubectl_says(*words, input=json.dumps(obj))
    assert "created" in done.stdout
    return done.stderr


def test_mutated_sets_are_accepted_or_refused_and_nothing_else(stage: Stage) -> None:
    """200 of them; 5000 with GROVE_TEST_REPEAT=25."""
    samples = [yaml.safe_load(path.read_text()) for path in sorted(ROOT.glob("samples/**/*.yaml"))]
    sets = [sample for sample in samples if isinstance(sample, dict) and sample.get("kind") == "PodCliqueSet"]
    rng = random.Random(1)
    statuses = Counter(status_of(stage, mutated(rng, copy.deepcopy(rng.choice(sets)))) for _ in range(200 * REPEAT))
    assert set(statuses) <= {201, 400, 403, 422}
    assert {403, 422} <= set(statuses)
    assert "Traceback" not in stage.operator.log


def status_of(stage: Stage, obj: Object) -> int:
    """The API server's status for a set to create; 500 for one that our rules stumble over."""
    try:
        stage.cluster.api("POST", f"{PODCLIQUESET.path('default')}?dryRun=All", obj)
    except ApiStatus as error:
        return 500 if "by a fault of the operator" in error.message else error.status
    return 201


ODD: tuple[Any, ...] = (
    None,
    0,
    -1,
    2**31,
    2**63,
    1.5,
    "",
    "x" * 300,
    "ü\u0000",
    [],
    {},
    [None],
    {"a": None},
    True,
    "a.b",
    ["a", "a"],
)


def mutated(rng: random.Random, obj: Object) -> Object:
    """A set with one to three places of its spec changed to something odd, doubled or gone."""
    for _ in range(rng.randint(1, 3)):
        places = list(containers_of(obj["spec"]))
        parent = rng.choice(places)
        key = rng.choice(list(parent) if isinstance(parent, dict) else range(len(parent)))
        match rng.randint(0, 3):
            case 0:
                del parent[key]
            case 1 if isinstance(parent, list):
                parent.append(copy.deepcopy(parent[key]))
            case _:
                parent[key] = copy.deepcopy(rng.choice(ODD))
        if not isinstance(obj.get("spec"), dict) or not obj["spec"]:
            break
    return obj


def containers_of(value: Any) -> Iterator[Any]:
    """Every object and list that is not empty."""
    if isinstance(value, dict | list) and value:
        yield value
        for inner in value.values() if isinstance(value, dict) else value:
            yield from containers_of(inner)


# What goes on without an operator


def test_without_an_operator_sets_can_be_scaled_finished_and_deleted(stage: Stage, namespace: str) -> None:
    cluster, path = stage.cluster, PODCLIQUESET.path(namespace, "s")
    cluster.api("POST", PODCLIQUESET.path(namespace), podcliqueset("s", clique("a", 1)))
    stage.operator.stop()
    cluster.kubectl("scale", "pcs", "s", "-n", namespace, "--replicas=2")
    cluster.api("PATCH", f"{path}/status", {"status": {"replicas": 1}}, MERGE)
    cluster.api("PATCH", path, {"metadata": {"finalizers": ["example.com/hold"]}}, MERGE)
    cluster.api("DELETE", path)
    cluster.api("PATCH", path, {"metadata": {"finalizers": None}}, MERGE)
    with pytest.raises(ApiStatus) as caught:
        cluster.api("GET", path)
    assert caught.value.status == 404
    assert "failed calling webhook" in refusal(cluster, podcliqueset("new", clique("a", 1)), namespace)


# Certificates


def test_a_crash_changes_no_certificate(stage: Stage) -> None:
    before = stage.secret
    assert before is not None
    stage.operator.kill()
    stage.operator.start()
    stage.shows(before.certificate)
    assert stage.secret == before


def test_before_its_end_a_certificate_is_renewed_without_a_gap(stage: Stage) -> None:
    before = stage.secret
    assert before is not None
    names = ["grove-operator", "127.0.0.1"]
    with stage.without_a_gap():
        stage.write_secret(dict(up_to_date(before, [*names, "more"], old()).to_secret()))
        stage.cluster.wait(lambda: renewed(stage, before), message="the certificate is renewed")
        now = stage.secret
        assert now is not None
        stage.shows(now.certificate)
    assert now.ca_bundle == before.ca_bundle


def old() -> datetime:
    """When a certificate was made that has to be renewed now."""
    return datetime.now(UTC) - timedelta(days=364)


def renewed(stage: Stage, before: Certificates) -> bool:
    now = stage.secret
    return now is not None and up_to_date(now, ["127.0.0.1"], datetime.now(UTC)) == now != before


def test_a_new_authority_is_taken_over_without_a_gap(stage: Stage) -> None:
    before = stage.secret
    assert before is not None
    with stage.without_a_gap():
        stage.write_secret({"ca.key": base64.b64encode(b"lost").decode()})
        stage.cluster.wait(lambda: renewed(stage, before), message="there is another authority")
        now = stage.secret
        assert now is not None
        stage.shows(now.certificate)
    assert now.ca_key != before.ca_key
    assert all(trusts(bundle, now.ca_bundle) for bundle in stage.bundles())


@pytest.mark.parametrize("how", ["deleted", "emptied"])
def test_a_lost_secret_comes_back_as_it_was(stage: Stage, how: str) -> None:
    before = stage.secret
    with stage.without_a_gap():
        if how == "deleted":
            stage.cluster.api("DELETE", SECRET.path("default", NAME))
        else:
            stage.write_secret({"tls.crt": "", "tls.key": "", "ca.crt": None, "ca.key": None})
        stage.cluster.wait(lambda: stage.secret == before, message="the Secret is back")


def test_an_emptied_ca_bundle_is_filled_in(stage: Stage) -> None:
    empty = [{"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": ""}]
    name = "podcliqueset-validating-webhook"
    stage.cluster.api("PATCH", VALIDATING.path(name=name), empty, "application/json-patch+json")
    stage.cluster.wait(lambda: all(stage.bundles()), message="caBundle is filled in")
    wait_called(stage.cluster)


def test_two_replicas_show_the_same(stage: Stage) -> None:
    port = free_port()
    second = stage.new_operator("second", port)
    second.start()
    now = stage.secret
    assert now is not None
    stage.shows(now.certificate, port)
    stage.cluster.api("DELETE", SECRET.path("default", NAME))
    stage.cluster.wait(lambda: stage.secret == now, message="the Secret is back")
    stage.shows(now.certificate)
    stage.shows(now.certificate, port)
    second.stop()


def test_manual_mode_shows_the_files_as_they_change(stage: Stage, tmp_path: Path) -> None:
    """As with cert-manager: the Secret is not touched, and a new file is shown without a restart."""
    port, before = free_port(), stage.secret
    manual = stage.new_operator("manual", port, certProvisionMode="manual", serverCertDir=str(tmp_path))
    manual.start()
    for _ in range(2):
        made = up_to_date(None, ["127.0.0.1"], datetime.now(UTC))
        (tmp_path / "tls.crt").write_bytes(made.certificate)
        (tmp_path / "tls.key").write_bytes(made.key)
        stage.shows(made.certificate, port)
    manual.stop()
    assert stage.secret == before
