"""What the chart renders. Names and values are those of the API doc 5.2; needs helm, and no cluster."""

import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from grove.controllers.config import load
from tests.cluster.chart import CHART, NAMESPACE, granted, helm, one, render

Object = dict[str, Any]

GOLDEN = Path(__file__).parent / "golden"

NAMES = {
    "ServiceAccount": "grove-operator",
    "Deployment": "grove-operator",
    "Service": "grove-operator",
    "ClusterRole": "grove:system:grove-operator",
    "ClusterRoleBinding": "grove:system:grove-operator",
    "Role": "grove:system:grove-operator-lease",
    "RoleBinding": "grove:system:grove-operator-lease",
    "MutatingWebhookConfiguration": "podcliqueset-defaulting-webhook",
}
"""Kinds of which a plain release has one object, and its name."""

ALL = (
    "replicaCount=2",
    "config.authorizer.enabled=true",
    "crdInstaller.enabled=true",
    "priorityClass.enabled=true",
    "metrics.serviceMonitor.enabled=true",
    "metrics.prometheusRule.enabled=true",
    "metrics.dashboard.enabled=true",
)


def with_values(*values: str) -> list[Object]:
    return render(*(argument for value in values for argument in ("--set", value)))


def pod_of(objects: list[Object]) -> Object:
    return dict(one(objects, "Deployment")["spec"]["template"]["spec"])


def config_of(objects: list[Object], tmp_path: Path) -> Any:
    file = tmp_path / "config.yaml"
    file.write_text(next(o for o in objects if "config.yaml" in o.get("data", {}))["data"]["config.yaml"])
    return load(file)


def test_lint() -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", CHART).stdout


def test_a_plain_release_has_the_names_of_the_reference() -> None:
    objects = render()
    for kind, name in NAMES.items():
        assert one(objects, kind)["metadata"]["name"] == name
    validating = {o["metadata"]["name"] for o in objects if o["kind"] == "ValidatingWebhookConfiguration"}
    assert validating == {"podcliqueset-validating-webhook", "clustertopology-validating-webhook"}
    (config,) = (o for o in objects if o["kind"] == "ConfigMap")
    assert re.fullmatch("grove-operator-cm-[0-9a-f]{8}", config["metadata"]["name"])
    assert config["immutable"]
    assert {o["kind"] for o in objects} == {*NAMES, "ConfigMap", "ValidatingWebhookConfiguration"}


def test_everything_carries_the_release_and_the_labels_asked_for() -> None:
    objects = with_values(*ALL, "commonLabels.team=ml", "commonAnnotations.owner=me")
    assert len(objects) >= 17
    for obj in objects:
        metadata = obj["metadata"]
        assert (metadata["labels"]["release"], metadata["labels"]["team"]) == ("grove", "ml"), obj["kind"]
        assert metadata["labels"]["chart"].startswith("grove-")
        assert metadata["annotations"]["owner"] == "me"


def test_rendering_is_the_same_every_time() -> None:
    assert with_values(*ALL) == with_values(*ALL)


EVERYTHING = (
    *ALL,
    "commonLabels.team=ml",
    "commonAnnotations.owner=me",
    "podLabels.pod=label",
    "podAnnotations.pod=annotation",
    "imagePullSecrets[0].name=key",
    "nodeSelector.role=infra",
    "tolerations[0].key=infra",
    "deployment.env[0].name=HTTPS_PROXY,deployment.env[0].value=http://proxy",
    "topologySpreadConstraints[0].maxSkew=1",
    "topologySpreadConstraints[0].topologyKey=topology.kubernetes.io/zone",
    "topologySpreadConstraints[0].whenUnsatisfiable=ScheduleAnyway",
    "config.scheduler.profiles[0].name=kai-scheduler,config.scheduler.profiles[1].name=volcano",
    "config.topologyAwareScheduling.enabled=true",
    "config.network.autoMNNVLEnabled=true",
)


@pytest.mark.parametrize(("file", "values"), [("chart-plain.yaml", ()), ("chart-everything.yaml", EVERYTHING)])
def test_the_whole_of_it_is_as_before(file: str, values: tuple[str, ...]) -> None:
    """What a release has, object by object; GROVE_TEST_WRITE_GOLDEN=1 writes down what it has now.

    Left out is what other tests look at: probes, and the dashboard.
    """
    objects = with_values(*values)
    for obj in objects:
        obj.get("data", {}).pop("grove.json", None)
    for key in ("startupProbe", "livenessProbe", "readinessProbe"):
        pod_of(objects)["containers"][0].pop(key, None)
    path = GOLDEN / file
    if os.environ.get("GROVE_TEST_WRITE_GOLDEN"):
        path.write_text(yaml.safe_dump_all(objects, sort_keys=False, width=120))
    assert objects == list(yaml.safe_load_all(path.read_text()))


def test_the_configuration_is_read_without_a_warning(tmp_path: Path) -> None:
    config = config_of(render(), tmp_path)
    assert config.warnings() == []
    assert config.leader_election.enabled
    assert config.leader_election.resource_namespace == NAMESPACE
    server = config.server
    assert (server.webhooks.port, server.health_probes.port, server.metrics.port) == (9443, 9444, 9445)


def test_r6_passes_at_once_are_set_for_every_kind(tmp_path: Path) -> None:
    kinds = ("podCliqueSet", "podClique", "podCliqueScalingGroup", "podGang")
    config = config_of(with_values(*(f"config.controllers.{kind}.concurrentSyncs=7" for kind in kinds)), tmp_path)
    assert {getattr(config.controllers, name).concurrent_syncs for name in type(config.controllers).model_fields} == {7}


@pytest.mark.parametrize("off", ["config.server.healthProbes.enable=false", "config.server.webhooks.port=0"])
def test_parts_can_be_turned_off(off: str, tmp_path: Path) -> None:
    objects = with_values(off)
    container = pod_of(objects)["containers"][0]
    assert ("readinessProbe" in container) == ("healthProbes" not in off)
    assert any(o["kind"] == "MutatingWebhookConfiguration" for o in objects) == ("webhooks" not in off)
    config = config_of(objects, tmp_path)
    assert (config.server.health_probes.port == 0) == ("healthProbes" in off)


@pytest.mark.parametrize(
    "value",
    [
        "replicas=2",
        "config.loglevel=debug",
        "config.logLevel=loud",
        "image.tags=v1",
        "config.server.webhooks.port=70000",
        "config.leaderElection.leaseDuration=15",
    ],
)
def test_a_slip_in_the_values_is_refused(value: str) -> None:
    refused = helm("template", "r", CHART, "--set", value, check=False)
    assert refused.returncode != 0
    assert "values don't meet the specifications of the schema" in refused.stderr


def test_crds_come_along() -> None:
    named = {obj["metadata"]["name"] for obj in render("--include-crds") if obj["kind"] == "CustomResourceDefinition"}
    assert named == {
        "clustertopologybindings.grove.io",
        "podcliques.grove.io",
        "podcliquescalinggroups.grove.io",
        "podcliquesets.grove.io",
        "podgangs.scheduler.grove.io",
    }
    assert not [obj for obj in render() if obj["kind"] == "CustomResourceDefinition"]


def test_h3_webhook_configurations_are_cluster_objects_for_namespaced_sets() -> None:
    for obj in with_values("config.authorizer.enabled=true"):
        if obj["kind"].endswith("WebhookConfiguration"):
            assert "namespace" not in obj["metadata"]
            scope = "Cluster" if obj["metadata"]["name"].startswith("clustertopology") else "Namespaced"
            for webhook in obj["webhooks"]:
                assert {rule["scope"] for rule in webhook["rules"]} == {scope}
                assert webhook["clientConfig"]["service"]["namespace"] == NAMESPACE
                assert webhook["clientConfig"]["service"]["name"] == "grove-operator"
                assert webhook["failurePolicy"] == "Fail"


def test_the_authorizer_exempts_the_operator_and_who_is_named() -> None:
    objects = with_values("config.authorizer.enabled=true", "config.authorizer.exemptServiceAccountUserNames={someone}")
    (condition,) = one(objects, "ValidatingWebhookConfiguration", "authorizer-webhook")["webhooks"][0][
        "matchConditions"
    ]
    for user in ("someone", f"system:serviceaccount:{NAMESPACE}:grove-operator", "system:kube-controller-manager"):
        assert f'"{user}"' in condition["expression"]


def test_a_bundle_and_annotations_for_a_certificate_of_others() -> None:
    annotation = "webhooks.podCliqueSetDefaultingWebhook.annotations.cert-manager\\.io/inject-ca-from=ns/cert"
    objects = with_values("config.server.webhooks.certProvisionMode=manual", "webhooks.caBundle=QUJD", annotation)
    webhook = one(objects, "MutatingWebhookConfiguration")
    assert webhook["webhooks"][0]["clientConfig"]["caBundle"] == "QUJD"
    assert webhook["metadata"]["annotations"]["cert-manager.io/inject-ca-from"] == "ns/cert"
    resources = {right.resource for role in ("ClusterRole", "Role") for right in granted(one(objects, role)["rules"])}
    assert not resources & {"secrets", "mutatingwebhookconfigurations", "validatingwebhookconfigurations"}


def test_h4_pods_go_where_they_are_told() -> None:
    pod = pod_of(
        with_values(
            "imagePullSecrets[0].name=key",
            "nodeSelector.role=infra",
            "tolerations[0].key=t",
            "deployment.env[0].name=HTTPS_PROXY",
            "deployment.env[0].value=x",
            "podSecurityContext.runAsUser=7",
        )
    )
    assert pod["imagePullSecrets"] == [{"name": "key"}]
    assert pod["nodeSelector"] == {"role": "infra"}
    assert pod["tolerations"] == [{"key": "t"}]
    assert {"name": "HTTPS_PROXY", "value": "x"} in pod["containers"][0]["env"]
    assert pod["securityContext"]["runAsUser"] == 7


def test_the_time_to_start_is_a_value() -> None:
    for seconds, values in ((300, []), (600, ["startupSeconds=600"]), (46, ["startupSeconds=45"])):
        probe = pod_of(with_values(*values))["containers"][0]["startupProbe"]
        assert probe["httpGet"]["path"] == "/healthz"
        assert probe["periodSeconds"] * probe["failureThreshold"] == seconds


def test_h5_probes_are_on_and_two_copies_have_a_budget() -> None:
    container = pod_of(render())["containers"][0]
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert not [o for o in render() if o["kind"] == "PodDisruptionBudget"], (
        "one copy with a budget could not be drained"
    )
    objects = with_values("replicaCount=2")
    assert one(objects, "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
    strategy = one(objects, "Deployment")["spec"]["strategy"]["rollingUpdate"]
    assert (strategy["maxUnavailable"], strategy["maxSurge"]) == (0, 1)


def test_h6_no_scheduler_is_needed_that_the_cluster_may_not_have(tmp_path: Path) -> None:
    assert [profile.name for profile in config_of(render(), tmp_path).scheduler.profiles] == ["default-scheduler"]
    groups = {right.group for right in granted(one(render(), "ClusterRole")["rules"])}
    assert not groups & {"scheduling.run.ai", "scheduling.volcano.sh"}


@pytest.mark.parametrize(
    ("profile", "group"), [("kai-scheduler", "scheduling.run.ai"), ("volcano", "scheduling.volcano.sh")]
)
def test_a_profile_brings_its_rights(profile: str, group: str) -> None:
    objects = with_values(f"config.scheduler.profiles[0].name={profile}")
    assert group in {right.group for right in granted(one(objects, "ClusterRole")["rules"])}


@pytest.mark.parametrize(
    ("profile", "aware", "topologies"),
    [("kai-scheduler", "true", True), ("kai-scheduler", "false", False), ("volcano", "true", False)],
)
def test_topologies_of_kai_are_written_where_topology_counts(profile: str, aware: str, topologies: bool) -> None:
    values = (f"config.scheduler.profiles[0].name={profile}", f"config.topologyAwareScheduling.enabled={aware}")
    rights = granted(one(with_values(*values), "ClusterRole")["rules"])
    kai = {right.verb for right in rights if (right.group, right.resource) == ("kai.scheduler", "topologies")}
    assert kai == ({"get", "list", "watch", "create", "delete"} if topologies else set())
    bindings = {right.verb for right in rights if right.resource == "clustertopologybindings"}
    assert bindings == ({"list", "watch"} if aware == "true" else set())


def test_h9_the_pod_is_restricted() -> None:
    """The demands of the Pod Security level restricted."""
    pod = pod_of(with_values("crdInstaller.enabled=true"))
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in (*pod["containers"], *pod["initContainers"]):
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["readOnlyRootFilesystem"]
        assert context["capabilities"] == {"drop": ["ALL"]}
    assert pod["automountServiceAccountToken"] is False


def test_no_right_is_wider_than_a_verb_on_a_resource() -> None:
    for role in ("ClusterRole", "Role"):
        for right in granted(one(with_values(*ALL), role)["rules"]):
            assert "*" not in (right.group, right.resource, right.verb)
            assert right.resource not in ("nodes", "roles", "rolebindings", "clusterroles")
            assert right.resource != "secrets" or role == "Role"


@pytest.mark.parametrize(("tag", "image"), [("v1", "repo:v1"), ("sha256:ab", "repo@sha256:ab"), ("", "repo:0.1.0")])
def test_the_image(tag: str, image: str) -> None:
    assert pod_of(with_values("image.repository=repo", f"image.tag={tag}"))["containers"][0]["image"] == image
