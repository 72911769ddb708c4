"""The operator as users have it: a release of the chart, its pods on a real node, its admission through its Service."""

import base64
import os
import signal
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.chart import CHART, NAMESPACE, RELEASE, Object, helm
from tests.cluster.harness import ApiStatus, Harness
from tests.cluster.operators import OperatorProcess
from tests.cluster.workloads import clique, podcliqueset
from tests.cluster.workspace import is_active, is_ready
from tests.node.node import Node

SECRET = "grove-webhook-server-cert"
CONFIGURATIONS = (
    "mutatingwebhookconfigurations/podcliqueset-defaulting-webhook",
    "validatingwebhookconfigurations/podcliqueset-validating-webhook",
    "validatingwebhookconfigurations/clustertopology-validating-webhook",
)
_PATIENCE = 240.0
_MERGE = "application/merge-patch+json"


class Installed(OperatorProcess):
    """A release with two copies. Looks like an operator that runs, for a workspace."""

    def __init__(self, cluster: Harness, node: Node) -> None:
        self.cluster = cluster
        self.node = node

    is_running = True

    @property
    def log(self) -> str:
        return "\n".join(line for pod in self.pods() for line in self.node.log(pod, "grove-operator"))

    def helm(self, command: str, *values: str) -> None:
        """Install or upgrade, and wait until the Deployment has come to rest."""
        ours = ("replicaCount=2", "config.logFormat=text", "resources.requests.cpu=400m")  # where others work, too
        sets = [part for value in (*ours, *values) for part in ("--set", value)]
        helm(command, RELEASE, CHART, "-n", NAMESPACE, "--kubeconfig", self.cluster.kubeconfig, *sets)
        self.rolled_out()

    def uninstall(self) -> None:
        helm("uninstall", RELEASE, "-n", NAMESPACE, "--kubeconfig", self.cluster.kubeconfig, "--wait")

    def rolled_out(self) -> None:
        """Wait until two copies of the Deployment as it is are ready, and no other pod is left."""

        def look() -> bool:
            found = self.cluster.api("GET", f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/grove-operator")
            status = found.get("status", {})
            assert status.get("observedGeneration") == found["metadata"]["generation"]
            seen = [status.get(key) for key in ("replicas", "updatedReplicas", "readyReplicas")]
            pods = self.pods()
            assert (seen, len(pods)) == ([2, 2, 2], 2), f"{seen}, {[pod.get('status') for pod in pods]}"
            return all(is_ready(pod) and is_active(pod) for pod in pods)

        self.cluster.wait(look, _PATIENCE, "the operator is rolled out")

    def pods(self) -> list[Object]:
        path = f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=app.kubernetes.io/name=grove-operator"
        return list(self.cluster.api("GET", path)["items"])

    def leader(self) -> str:
        """Name of the pod that holds the Lease, which starts the holder's identity; "" when there is none."""
        path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/grove-operator-leader-election"
        return str(self.cluster.api("GET", path)["spec"].get("holderIdentity") or "").rpartition("_")[0]

    def leads(self, *, other_than: str = "") -> Object:
        """The pod that leads, once one does that is there; another than the one of that name."""

        def look() -> Object | None:
            leader = self.leader()
            pods = {pod["metadata"]["name"]: pod for pod in self.pods() if is_active(pod)}
            return pods.get(leader) if leader != other_than else None

        found = self.cluster.wait(look, _PATIENCE, "somebody leads")
        assert found
        return found

    def delete(self, pod: Object) -> None:
        """Delete a pod, as a drain does."""
        self.cluster.api("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}")

    def process(self, pod: Object) -> Path:
        """The /proc folder of a pod's operator."""
        return self.node.process_of(pod["status"]["containerStatuses"][0]["containerID"])

    def kill(self) -> None:
        raise NotImplementedError("say which pod: kill_process")

    def kill_process(self, pod: Object) -> None:
        """SIGKILL for the process of a pod, which starts again in it; returns when that is seen."""
        name = pod["metadata"]["name"]
        before = pod["status"]["containerStatuses"][0]["restartCount"]
        os.kill(int(self.process(pod).name), signal.SIGKILL)

        def restarted() -> bool:
            found = self.cluster.api("GET", f"/api/v1/namespaces/{NAMESPACE}/pods/{name}")
            return bool(found["status"]["containerStatuses"][0]["restartCount"] > before)

        self.cluster.wait(restarted, _PATIENCE, f"the process of {name} was killed")

    # -- admission and its certificate -----------------------------------------------------------------------------

    def admit(self, pcs: Object | None = None) -> Object:
        """Have a set admitted, as a dry run; what would be stored. Raises ApiStatus when it is refused."""
        pcs = pcs or podcliqueset("asked", clique("a", 2))
        path = "/apis/grove.io/v1alpha1/namespaces/default/podcliquesets?dryRun=All"
        return dict(self.cluster.api("POST", path, pcs))

    def admits(self) -> None:
        """Wait until sets are admitted."""

        def look() -> bool:
            try:
                return bool(self.admit())
            except ApiStatus as error:
                raise AssertionError(str(error)) from error

        self.cluster.wait(look, _PATIENCE, "sets are admitted")

    @contextmanager
    def always_admitted(self) -> Iterator[None]:
        """One set after the other is applied, dry, while the block runs; not one of them is refused."""
        refused: list[str] = []
        asked = 0
        done = threading.Event()

        def ask() -> None:
            nonlocal asked
            while not done.is_set():
                try:
                    self.admit()
                except ApiStatus as error:
                    refused.append(f"{time.strftime('%X')} {error}")
                asked += 1
                done.wait(0.05)

        thread = threading.Thread(target=ask)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
        assert refused == [], f"{len(refused)} of {asked}: {refused[:3]}"
        assert asked > 10

    def configurations(self) -> list[Object]:
        """The webhook configurations."""
        return [self.cluster.api("GET", f"/apis/admissionregistration.k8s.io/v1/{path}") for path in CONFIGURATIONS]

    def inject(self, bundle: bytes) -> None:
        """Write an authority into the webhook configurations, as cert-manager's injector does."""
        for path, found in zip(CONFIGURATIONS, self.configurations(), strict=True):
            for webhook in found["webhooks"]:
                webhook["clientConfig"]["caBundle"] = base64.b64encode(bundle).decode()
            self.cluster.api(
                "PATCH", f"/apis/admissionregistration.k8s.io/v1/{path}", {"webhooks": found["webhooks"]}, _MERGE
            )

    def secret(self) -> Object:
        """The Secret of the certificate."""
        return dict(self.cluster.api("GET", self._secret_path))

    def write_secret(self, data: dict[str, bytes], **annotations: str) -> None:
        """Replace what the Secret holds, making it where it is missing."""
        encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
        metadata = {"name": SECRET, "annotations": annotations}
        body = {"type": "kubernetes.io/tls", "metadata": metadata, "data": encoded}
        try:
            found = self.secret()
        except ApiStatus:
            self.cluster.api("POST", self._secret_path.rpartition("/")[0], body)
        else:
            found["data"] = encoded
            found["metadata"].setdefault("annotations", {}).update(annotations)
            self.cluster.api("PUT", self._secret_path, found)

    def delete_secret(self) -> None:
        self.cluster.api("DELETE", self._secret_path)

    _secret_path = f"/api/v1/namespaces/{NAMESPACE}/secrets/{SECRET}"

    def served(self) -> set[bytes]:
        """The certificates (DER) that the copies show."""
        return {_shown(pod["status"]["podIP"]) for pod in self.pods() if is_ready(pod)}

    def serves(self, pem: bytes) -> None:
        """Wait until every copy shows this certificate."""
        wanted = {ssl.PEM_cert_to_DER_cert(pem.decode().split("-----END")[0] + "-----END CERTIFICATE-----\n")}
        self.cluster.wait(lambda: self.served() == wanted, _PATIENCE, "the certificate is shown")


def _shown(address: str) -> bytes:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection((address, 9443), timeout=10) as plain,
        context.wrap_socket(plain) as connection,
    ):
        return connection.getpeercert(binary_form=True) or b""
