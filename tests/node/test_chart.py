"""The chart on a real node: its image, its webhooks through its Service, failover, certificates, what it leaves.

One release, which these tests take through its life in the order in which they stand here.
"""

import base64
import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
import yaml

from grove.webhooks.certificates import Certificates, up_to_date
from tests.certificates import issued_by_others
from tests.cluster.chart import NAMESPACE, Object
from tests.cluster.harness import ROOT, ApiStatus, Harness
from tests.cluster.workloads import clique, podcliqueset
from tests.cluster.workspace import Workspace, uids
from tests.node.installed import SECRET, Installed
from tests.node.node import SAMPLE_IMAGE, Node

NAMES = [f"grove-operator.{NAMESPACE}.svc", f"grove-operator.{NAMESPACE}"]
INJECTED = "cert-manager.io/inject-ca-from"
SLEEPS: Object = {"containers": [{"name": "main", "image": SAMPLE_IMAGE}], "terminationGracePeriodSeconds": 0}
EXPLICIT: Object = {"cliqueStartupType": "CliqueStartupTypeExplicit"}
MANUAL = "config.server.webhooks.certProvisionMode=manual"
WEBHOOKS = ("podCliqueSetDefaultingWebhook", "podCliqueSetValidationWebhook", "clusterTopologyValidationWebhook")


@pytest.fixture(scope="module")
def installed(cluster: Harness, node: Node) -> Installed:
    """The release, in a namespace that enforces the restricted Pod Security level."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    cluster.api("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE, "labels": labels}})
    release = Installed(cluster, node)
    release.helm("install")
    release.admits()
    return release


@pytest.fixture
def workspace(cluster: Harness, namespace: str, installed: Installed) -> Iterator[Workspace]:
    workspace = Workspace(cluster, namespace, installed)
    yield workspace
    with contextlib.suppress(ApiStatus):
        workspace.close()


def test_the_process_has_no_powers(installed: Installed) -> None:
    """As the kernel sees it."""
    container = installed.pods()[0]["status"]["containerStatuses"][0]["containerID"]
    assert "ro" in installed.node.powerless(container)["/"]


def test_admission_works_through_the_service(installed: Installed) -> None:
    stored = installed.admit(podcliqueset("asked", clique("a", 2)))
    assert stored["spec"]["template"]["cliques"][0]["spec"]["minAvailable"] == 2
    with pytest.raises(ApiStatus, match="there is no clique of this name"):
        installed.admit(podcliqueset("asked", clique("a", 2, startsAfter=["b"]), **EXPLICIT))


def test_simple1_runs_though_the_operator_is_deleted_and_killed(workspace: Workspace, installed: Installed) -> None:
    before = workspace.revision()
    sample = yaml.safe_load((ROOT / "samples" / "simple" / "simple1.yaml").read_text())
    workspace.create("pcs", sample)
    workspace.wait(lambda: workspace.names("pclq"), "the operator has begun", 120)
    first = installed.leads()
    installed.delete(first)
    installed.kill_process(installed.leads(other_than=first["metadata"]["name"]))
    workspace.settled("simple1", 9, timeout=300)
    made = [change for change in workspace.changes(before, "pod") if change.type == "ADDED"]
    assert len(made) == 9, "each pod was made once"
    installed.rolled_out()


def test_two_copies_fail_over_and_admission_is_never_refused(workspace: Workspace, installed: Installed) -> None:
    """The one that works goes, twice; whoever works next goes on with the same set."""
    workspace.create("pcs", podcliqueset("kept", clique("a", 1, 1, podSpec=SLEEPS)))
    kept = uids(workspace.settled("kept", 1, timeout=180))
    with installed.always_admitted():
        for replicas in (2, 3):
            leader = installed.leads()
            installed.delete(leader)
            installed.leads(other_than=leader["metadata"]["name"])
            workspace.scale("pclq", "kept-0-a", replicas)
            assert kept < uids(workspace.settled("kept", replicas, timeout=180))
            installed.rolled_out()


def test_certificates_are_renewed_and_admission_is_never_refused(installed: Installed) -> None:
    """First the certificate is about to end, then its authority is; nothing restarts."""
    pods = uids(installed.pods())

    def current() -> Certificates:
        found = Certificates.from_secret(installed.secret()["data"])
        assert found
        return found

    def age(days: int, *, authority: bool) -> bytes:
        """Put what would have been made so many days ago into the Secret; the certificate of it."""
        now = current()
        before = None if authority else Certificates(now.ca_bundle, now.ca_key, b"-", b"-")
        old = up_to_date(before, NAMES, datetime.now(UTC) - timedelta(days=days))
        content = {key: base64.b64decode(value) for key, value in old.to_secret().items()}
        if authority:
            content["ca.crt"] += now.ca_bundle  # the one before, whose certificate is still shown
        installed.write_secret(content)
        return old.certificate

    with installed.always_admitted():
        for days, authority in ((300, False), (3650 - 400, True)):
            old = age(days, authority=authority)
            installed.cluster.wait(lambda old=old: current().certificate != old, 120, "it is renewed")  # type: ignore[misc]
            installed.serves(current().certificate)
    assert uids(installed.pods()) == pods


def test_cm1_certificates_of_somebody_else_and_back(workspace: Workspace, installed: Installed) -> None:
    theirs = issued_by_others(NAMES)
    installed.write_secret(theirs, **{"cert-manager.io/certificate-name": "grove"})
    annotations = [
        f"webhooks.{name}.annotations.cert-manager\\.io/inject-ca-from=grove-system/grove" for name in WEBHOOKS
    ]
    installed.helm("upgrade", MANUAL, *annotations)
    installed.inject(theirs["ca.crt"])
    assert all(found["metadata"]["annotations"][INJECTED] for found in installed.configurations())
    installed.serves(theirs["tls.crt"])
    installed.admits()
    renewed = issued_by_others(NAMES)
    installed.inject(theirs["ca.crt"] + renewed["ca.crt"])
    installed.write_secret(renewed)
    installed.serves(renewed["tls.crt"])
    workspace.create("pcs", podcliqueset("by-them", clique("a", 1, podSpec=SLEEPS)))
    workspace.settled("by-them", 1, timeout=180)
    # And back. Their authority is still in the configurations.
    installed.delete_secret()
    installed.helm("upgrade")
    installed.cluster.wait(lambda: Certificates.from_secret(installed.secret()["data"]), 120, "there is a Secret")
    secret = installed.secret()
    assert "annotations" not in secret["metadata"]
    installed.serves(base64.b64decode(secret["data"]["tls.crt"]))
    installed.admits()
    workspace.create("pcs", podcliqueset("by-us", clique("a", 1, podSpec=SLEEPS)))
    workspace.settled("by-us", 1, timeout=180)


def test_uninstalled_it_leaves_what_the_documentation_says(
    cluster: Harness, workspace: Workspace, installed: Installed
) -> None:
    workspace.create("pcs", podcliqueset("left", clique("a", 1, podSpec=SLEEPS)))
    before = uids(workspace.settled("left", 1, timeout=180))
    installed.uninstall()
    cluster.wait(lambda: not installed.pods(), 120, "its pods are gone")
    kinds = cluster.kubectl("api-resources", "--verbs=list", "-o", "name").split()
    names = ",".join(kind for kind in kinds if not kind.startswith(("events", "componentstatuses", "pods.metrics")))
    found = cluster.kubectl("get", names, "-A", "-o", "custom-columns=K:.kind,S:.metadata.namespace,N:.metadata.name")
    ours = {tuple(line.split()) for line in found.splitlines() if "grove" in line}
    ours = {(kind, name) for kind, space, name in ours if space in (NAMESPACE, "<none>") and kind != "APIService"}
    standing = {("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default"), ("Namespace", NAMESPACE)}
    crds = {(kind, name) for kind, name in ours if kind == "CustomResourceDefinition"}
    assert len(crds) == 5
    assert ours - standing - crds == {("Secret", SECRET), ("Lease", "grove-operator-leader-election")}
    assert uids(workspace.clique_pods("left-0-a")) == before
    workspace.delete("pcs", "left")
    workspace.wait(lambda: not workspace.pods(), "a set can be deleted while no operator runs", 120)
    cluster.api("DELETE", f"/api/v1/namespaces/{NAMESPACE}")
    cluster.wait(
        lambda: NAMESPACE not in cluster.kubectl("get", "namespaces", "-o", "name"), 240, "its namespace is gone"
    )
