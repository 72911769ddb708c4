"""The chart on a real API server. Its pod cannot run on fake nodes, so the operator is a process that has what the pod
would have: the ServiceAccount's token and nothing else, the rendered configuration, the webhooks' port.
"""

import json
import os
import subprocess
import sys
import urllib.request
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from grove.api.labels import MANAGED_BY
from tests.cluster import chart
from tests.cluster.chart import NAMESPACE, RELEASE, helm, one
from tests.cluster.harness import ROOT, ApiStatus, Harness, running_cluster
from tests.cluster.operators import QUIET, OperatorProcess
from tests.cluster.test_metrics import free_ports
from tests.cluster.workloads import clique, group, podcliqueset
from tests.cluster.workspace import Workspace, uids

UNSEEN = {
    ("update", f"{plural}/finalizers")
    for plural in ("podcliquesets", "podcliques", "podcliquescalinggroups", "podgangs")
}
"""Rights that are checked while another request is made, which the audit log does not tell. The API server of these
tests does check them: see OwnerReferencesPermissionEnforcement."""

RARE = {
    chart.Right("", "pods", "get"),
    *(
        chart.Right("scheduling.k8s.io", plural, verb)
        for plural in ("podgroups", "compositepodgroups")
        for verb in ("get", "patch", "delete")
    ),
}
"""Rights for what does not happen in this life: an answer to the create of a pod that was lost, so that the next create
meets it, and gang objects of Kubernetes that somebody else made or changed.
"""


class Installed:
    """A release, and the operator under its rights."""

    def __init__(self, cluster: Harness, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self.webhooks, self.metrics, self.probes = free_ports(3)
        self.values = [
            f"webhooks.url=https://127.0.0.1:{self.webhooks}",
            f"config.server.webhooks.port={self.webhooks}",
            f"config.server.metrics.port={self.metrics}",
            f"config.server.healthProbes.port={self.probes}",
            "config.logFormat=text",
            "config.authorizer.enabled=true",
            "config.authorizer.exemptServiceAccountUserNames={kwok-admin}",  # who plays the user in these tests
            "replicaCount=2",
        ]

    def helm(self, command: str, *values: str, of: Path = chart.CHART) -> None:
        sets = [argument for value in (*self.values, *values) for argument in ("--set", value)]
        helm(command, RELEASE, of, "-n", NAMESPACE, "--kubeconfig", self.cluster.kubeconfig, *sets)

    def operator(self, root: Path = ROOT) -> OperatorProcess:
        """The operator as the Deployment describes it now, from the sources in `root`."""
        config = yaml.safe_load(self.config_map()["data"]["config.yaml"])
        return OperatorProcess(chart.account_kubeconfig(self.cluster, self.folder), self.folder, config, root=root)

    @contextmanager
    def second(self, folder: Path) -> Iterator[OperatorProcess]:
        """Another copy, without ports, as long as the block runs."""
        config = yaml.safe_load(self.config_map()["data"]["config.yaml"])
        config["server"] = QUIET["server"]
        process = OperatorProcess(chart.account_kubeconfig(self.cluster, folder), folder, config)
        process.start()
        try:
            yield process
        finally:
            process.kill()

    def config_map(self) -> chart.Object:
        pod = self.deployment()["spec"]["template"]["spec"]
        name = next(volume["configMap"]["name"] for volume in pod["volumes"] if "configMap" in volume)
        return dict(self.cluster.api("GET", f"/api/v1/namespaces/{NAMESPACE}/configmaps/{name}"))

    def deployment(self) -> chart.Object:
        return dict(self.cluster.api("GET", f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/grove-operator"))

    def manifest(self) -> list[chart.Object]:
        """The objects of the release as the API server has them."""
        shown = helm("get", "manifest", RELEASE, "-n", NAMESPACE, "--kubeconfig", self.cluster.kubeconfig).stdout
        (self.folder / "manifest.yaml").write_text(shown)
        text = self.cluster.kubectl("get", "-n", NAMESPACE, "-f", self.folder / "manifest.yaml", "-o", "yaml")
        return list(yaml.safe_load(text)["items"])


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audit")


@pytest.fixture(scope="module")
def cluster(audit: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """A cluster of this file's own, whose API server writes an audit log."""
    with running_cluster(tmp_path_factory.mktemp("chart"), 10, apiserver_flags=chart.audited(audit)) as harness:
        harness.kubectl("create", "namespace", NAMESPACE)
        yield harness


@pytest.fixture(scope="module")
def installed(cluster: Harness, audit: Path) -> Installed:
    installed = Installed(cluster, audit)
    installed.helm("install")
    return installed


@pytest.fixture(scope="module")
def operator(installed: Installed) -> Iterator[OperatorProcess]:
    process = installed.operator()
    process.start()
    yield process
    if process.is_running:
        process.kill()


@pytest.fixture
def workspace(cluster: Harness, namespace: str, operator: OperatorProcess) -> Iterator[Workspace]:
    workspace = Workspace(cluster, namespace, operator)
    yield workspace
    workspace.close()


def admitted(workspace: Workspace, obj: chart.Object) -> None:
    """Create a set once the webhooks are there to admit it."""

    def create() -> bool:
        try:
            workspace.create("pcs", obj)
        except ApiStatus as error:
            if "webhook" in str(error):
                return False
            raise
        return True

    workspace.wait(create, "the webhooks admit a set")


def test_a_sample_runs_under_the_rights_of_the_chart(workspace: Workspace) -> None:
    sample = yaml.safe_load((ROOT / "samples" / "simple" / "simple1.yaml").read_text())
    sample["metadata"]["namespace"] = workspace.namespace
    admitted(workspace, sample)
    workspace.settled("simple1", 9)


def namesakes(workspace: Workspace) -> None:
    """Objects of somebody else under names that a set is about to need: the operator has to look whose they are."""
    gang = {"apiVersion": "scheduler.grove.io/v1alpha1", "kind": "PodGang", "spec": {"podgroups": []}}
    spec = {"replicas": 1, "minAvailable": 1, "cliqueNames": ["b"]}
    scaling_group = {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueScalingGroup", "spec": spec}
    workspace.create("pg", {**gang, "metadata": {"name": "taken-0"}})
    workspace.create("pcsg", {**scaling_group, "metadata": {"name": "taken-0-g"}})
    parts = [clique("a", 1), clique("b", 1), group("g", "b")]
    admitted(workspace, podcliqueset("taken", *parts))
    workspace.until("pcs", "taken", lambda obj: len(obj["status"].get("lastErrors", ())) >= 2, "both are told of")
    workspace.delete("pcs", "taken")


def hide(workspace: Workspace, kind: str, name: str) -> None:
    """Take away the label by which many of the operator's objects are watched; it puts it back."""
    workspace.patch(kind, name, {"metadata": {"labels": {MANAGED_BY: None}}})
    workspace.until(kind, name, lambda obj: MANAGED_BY in obj["metadata"]["labels"], f"the label of {name} is back")


def test_h2_notes_tell_of_the_crds(installed: Installed) -> None:
    notes = helm("get", "notes", RELEASE, "-n", NAMESPACE, "--kubeconfig", installed.cluster.kubeconfig).stdout
    assert "--include-crds" in notes
    assert "kubectl apply --server-side" in notes


def test_every_right_is_used_and_none_is_lacking(
    workspace: Workspace, installed: Installed, operator: OperatorProcess, audit: Path, tmp_path: Path
) -> None:
    """A set lives a full life: it is repaired, scaled, updated and deleted. Then the API server's books are read."""
    auto = {"minReplicas": 2, "maxReplicas": 4, "metrics": []}
    parts = [clique("a", 2, autoScalingConfig=auto), clique("b", 2), group("g", "b", 2, scaleConfig=auto)]
    admitted(workspace, podcliqueset("life", *parts, replicas=2))
    workspace.settled("life", 12)
    for kind, name in (("svc", "life-1"), ("pg", "life-1-g-0"), ("hpa", "life-1-a")):
        workspace.delete(kind, name)
    hide(workspace, "svc", "life-0")
    hide(workspace, "hpa", "life-0-a")
    workspace.settled("life", 12)
    workspace.scale("pclq", "life-0-a", 3)
    workspace.settled("life", 13)
    workspace.scale("pclq", "life-0-a", 2)
    hide(workspace, "pcsg", "life-0-g")
    workspace.scale("pcs", "life", 1)
    workspace.settled("life", 6)

    def change(obj: chart.Object) -> None:
        obj["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["containers"][0]["image"] = "example.com/image:2"
        obj["metadata"]["finalizers"] = ["grove.io/podcliqueset.grove.io"]  # as the Go operator leaves it

    workspace.update("pcs", "life", change)
    namesakes(workspace)
    secret = f"/api/v1/namespaces/{NAMESPACE}/secrets/grove-webhook-server-cert"
    workspace.cluster.api("PATCH", secret, {"data": {"tls.crt": "", "tls.key": ""}}, "application/merge-patch+json")
    with installed.second(tmp_path) as standby:
        workspace.cluster.wait(lambda: "Standing by" in standby.log, message="the second stands by")
    operator.restart()
    workspace.delete("pcs", "life")
    workspace.gone("life")
    rules = [rule for role in ("ClusterRole", "Role") for rule in one(installed.manifest(), role)["rules"]]

    def all_used() -> bool:
        left = {right for right in chart.unused(rules, audit) if (right.verb, right.resource) not in UNSEEN}
        left -= RARE
        assert not left, sorted(f"{right.verb} {right.resource}.{right.group}" for right in left)
        return True

    workspace.wait(all_used, "every right has been used", timeout=30)
    assert chart.forbidden(audit) == []
    assert "forbidden" not in operator.log


def test_alerts_and_dashboard_get_what_they_ask_for(
    workspace: Workspace, installed: Installed, operator: OperatorProcess
) -> None:
    """Of a real operator that has worked and admitted: every series, with every label and value that they name."""
    admitted(workspace, podcliqueset("seen", clique("a", 1)))
    workspace.settled("seen", 1)
    no_room = clique("a", 1, room=workspace.namespace)
    admitted(workspace, podcliqueset("held", no_room, clique("b", 1), group("g", "b", 2)))
    workspace.reads("pg", "held-0-g-0", ("Scheduled", "False", "WaitingForBaseGang"))
    with urllib.request.urlopen(f"http://127.0.0.1:{installed.metrics}/metrics", timeout=30) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    have: dict[str, list[Mapping[str, str]]] = defaultdict(list)
    for sample in (sample for family in families for sample in family.samples):
        have[sample.name].append(sample.labels)
    objects = chart.render("--set=metrics.prometheusRule.enabled=true,metrics.dashboard.enabled=true")
    rules = [rule for part in one(objects, "PrometheusRule")["spec"]["groups"] for rule in part["rules"]]
    shown = json.loads(next(obj["data"]["grove.json"] for obj in objects if "grove.json" in obj.get("data", {})))
    targets = [target for panel in shown["panels"] for target in panel["targets"]]
    for expression in (query["expr"] for query in (*rules, *targets)):
        asked = list(chart.asked_for(expression))
        assert asked, expression
        for name, labels in asked:
            values = {key: value for key, value in labels.items() if value and key != "code"}  # no request has failed
            found = [tags for tags in have[name] if labels.keys() <= tags.keys() and values.items() <= tags.items()]
            assert found, f"{expression}: no {name} with {labels}, there are {have[name][:3]}"


def test_the_same_again_changes_nothing(installed: Installed, operator: OperatorProcess) -> None:
    """As GitOps does it, day and night. What the operator wrote, the webhooks' authority, stays."""
    installed.cluster.wait(lambda: "Showing the webhook certificate" in operator.log, message="there is a certificate")

    def versions() -> dict[tuple[str, str], str]:
        found = installed.manifest()
        return {
            (obj["kind"], obj["metadata"]["name"]): obj["metadata"]["resourceVersion"]
            for obj in found
            if obj["kind"] != "Deployment"
        }

    before, generation = versions(), installed.deployment()["metadata"]["generation"]
    for _ in range(2):
        installed.helm("upgrade")
        installed.cluster.kubectl(
            "apply",
            "-n",
            NAMESPACE,
            "--server-side",
            "--dry-run=server",
            "--force-conflicts",
            "-f",
            installed.folder / "manifest.yaml",
        )
    assert versions() == before
    assert installed.deployment()["metadata"]["generation"] == generation
    for obj in installed.manifest():
        if obj["kind"].endswith("WebhookConfiguration"):
            assert all(webhook["clientConfig"].get("caBundle") for webhook in obj["webhooks"])


def commit_before(folder: Path) -> Path:
    """The sources of the commit before this one; of this one where a clone has no other."""
    git = ("git", "-C", str(ROOT))
    known = subprocess.run([*git, "rev-parse", "-q", "--verify", "HEAD~1"], capture_output=True, check=False)
    commit = "HEAD" if known.returncode else "HEAD~1"
    archive = subprocess.run([*git, "archive", commit, "charts", "crds", "grove"], capture_output=True, check=True)
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    return folder


def test_an_upgrade_rolls_the_operator_and_no_pod_of_a_set(
    workspace: Workspace, installed: Installed, operator: OperatorProcess, tmp_path: Path
) -> None:
    """From the chart and the operator of the commit before."""
    sources = commit_before(tmp_path)
    operator.stop()
    installed.helm("upgrade", of=sources / "charts" / "grove")
    first = installed.operator(sources)
    first.start()
    admitted(workspace, podcliqueset("kept", clique("a", 3), clique("b", 1), group("g", "b", 2)))
    before = uids(workspace.settled("kept", 5))
    old = installed.config_map()["metadata"]["name"]
    installed.helm("upgrade", "config.controllers.podClique.concurrentSyncs=7")
    new = installed.config_map()
    assert new["metadata"]["name"] != old, "a new name makes the Deployment roll"
    assert yaml.safe_load(new["data"]["config.yaml"])["controllers"]["podClique"]["concurrentSyncs"] == 7
    with pytest.raises(ApiStatus):
        workspace.cluster.api("GET", f"/api/v1/namespaces/{NAMESPACE}/configmaps/{old}")
    second = installed.operator()
    mark = len(second.log)
    first.stop()
    second.start()
    try:
        workspace.cluster.wait(lambda: "Leading" in second.log[mark:], message="the new one leads")
        workspace.scale("pcs", "kept", 2)
        assert before < uids(workspace.settled("kept", 10))
    finally:
        second.stop()
        operator.start()


def test_crds_are_upgraded_by_the_installer(
    cluster: Harness, installed: Installed, operator: OperatorProcess, audit: Path
) -> None:
    """As each start of a pod does it, under the rights of the chart; an older CRD is brought up to date."""
    installed.helm("upgrade", "crdInstaller.enabled=true")
    pod = installed.deployment()["spec"]["template"]["spec"]
    command = pod["initContainers"][0]["command"]
    cluster.kubectl(
        "patch",
        "crd",
        "podcliquesets.grove.io",
        "--type=json",
        "-p",
        '[{"op":"replace","path":"/spec/names/shortNames","value":["old"]}]',
    )
    kubeconfig = chart.account_kubeconfig(cluster, audit)
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-m", *command],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "KUBECONFIG": str(kubeconfig)},
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.count(": applied") == 5
    crd = cluster.api("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/podcliquesets.grove.io")
    assert crd["spec"]["names"]["shortNames"] == ["pcs"]
    assert chart.forbidden(audit) == []


def test_uninstalled_it_leaves_the_sets_and_their_pods(
    workspace: Workspace, installed: Installed, operator: OperatorProcess
) -> None:
    admitted(workspace, podcliqueset("left", clique("a", 2)))
    before = uids(workspace.settled("left", 2))
    names = [(obj["kind"], obj["metadata"]["name"]) for obj in installed.manifest()]
    assert len(names) >= 10
    operator.stop()
    helm("uninstall", RELEASE, "-n", NAMESPACE, "--kubeconfig", installed.cluster.kubeconfig, "--wait")
    gone = installed.cluster.kubectl(
        "get", "-n", NAMESPACE, "-f", installed.folder / "manifest.yaml", "-o", "name", "--ignore-not-found"
    )
    assert gone == ""
    assert uids(workspace.clique_pods("left-0-a")) == before
    workspace.delete("pcs", "left")
    workspace.wait(lambda: not workspace.pods(), "a set can be deleted while no operator runs")
