"""Installing and removing what tests need of KAI and Volcano."""

from tests.cluster.gang_scheduler import KAI, Dialect
from tests.cluster.harness import ApiStatus, Harness
from tests.cluster.workspace import Object

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def install(cluster: Harness, dialect: Dialect) -> None:
    """A scheduler's CRDs, and a queue that takes pods."""
    for crd in dialect.crds:
        apply_crd(cluster, crd)
    name = "test" if dialect is KAI else "default"
    open_queue(cluster, dialect, name)


def apply_crd(cluster: Harness, crd: Object) -> None:
    """Create the CRD, or bring it to this version, and wait until it is served."""
    path = f"{CRDS}/{crd['metadata']['name']}"
    try:
        cluster.api("POST", CRDS, crd)
    except ApiStatus as error:
        if error.status != 409:
            raise
        live = cluster.api("GET", path)
        if live["spec"]["versions"] != crd["spec"]["versions"]:
            version = {"resourceVersion": live["metadata"]["resourceVersion"]}
            cluster.api("PUT", path, {**crd, "metadata": {**crd["metadata"], **version}})
    cluster.wait(lambda: "Established" in _true(cluster.api("GET", path)), message=f"{path} is established")


def _true(crd: Object) -> list[str]:
    conditions = crd.get("status", {}).get("conditions") or ()
    return [one["type"] for one in conditions if one["status"] == "True"]


def remove_crd(cluster: Harness, crd: Object) -> None:
    """Delete the CRD with all its objects, and wait until it is gone."""
    path = f"{CRDS}/{crd['metadata']['name']}"
    try:
        cluster.api("DELETE", path)
    except ApiStatus as error:
        if error.status != 404:
            raise

    def is_gone() -> bool:
        names = [one["metadata"]["name"] for one in cluster.api("GET", CRDS)["items"]]
        return crd["metadata"]["name"] not in names

    cluster.wait(is_gone, message="the CRD is gone")


def open_queue(cluster: Harness, dialect: Dialect, name: str, state: str = "Open") -> None:
    """A queue in this state, as far as the scheduler's queues have one."""
    queue = {**dialect.queue(name), "metadata": {"name": name}}

    def create() -> bool:
        try:
            cluster.api("POST", dialect.queues, queue)
        except ApiStatus as error:
            if error.status == 409:
                return True
            raise
        return True

    cluster.wait(create, message="the kind Queue is served")
    if dialect is not KAI:
        patch = {"status": {"state": state}}
        cluster.api("PATCH", f"{dialect.queues}/{name}/status", patch, "application/merge-patch+json")
