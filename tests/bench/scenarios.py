"""What is deployed: the PodCliqueSets of the benchmark, and what each must come to."""

import copy
from dataclasses import dataclass, field, replace
from typing import Any

from grove.plan.kinds import PODCLIQUE, PODCLIQUESCALINGGROUP, PODCLIQUESET
from grove.runtime.resources import ResourceType

NAMESPACE = "bench"
NAME = "bench"
IMAGE, UPDATED_IMAGE = "example.com/none:1", "example.com/none:2"


@dataclass(frozen=True, slots=True)
class Scale:
    """A change of one object's replicas through /scale; `pods` is how many there are in all afterwards."""

    title: str
    resource: ResourceType
    name: str
    replicas: int
    pods: int


@dataclass(frozen=True, slots=True)
class Scenario:
    """One PodCliqueSet, the fake nodes it runs on, and how many PodCliques and pods it must come to."""

    name: str
    title: str
    nodes: int
    replicas: int
    podcliques: int
    pods: int
    template: dict[str, Any]
    scales: tuple[Scale, ...] = ()
    gangs: bool = True
    """whether the cluster has Kubernetes' own gangs"""
    admission: bool = False
    """whether the webhooks are asked while the set is deployed"""
    update: bool = False
    """whether the template is changed once all is up, so that every pod is replaced"""
    chain: dict[str, int] = field(default_factory=dict)
    """clique → minAvailable, where the cliques start one after the other, each when that many pods before are ready"""

    def manifest(self) -> dict[str, Any]:
        """The PodCliqueSet to create."""
        return {
            "apiVersion": PODCLIQUESET.api_version,
            "kind": PODCLIQUESET.kind,
            "metadata": {"name": NAME, "namespace": NAMESPACE},
            "spec": {"replicas": self.replicas, "template": self.template},
        }

    def updated(self) -> dict[str, Any]:
        """The change of the set that gives every clique another image."""
        template = copy.deepcopy(self.template)
        for clique in template["cliques"]:
            clique["spec"]["podSpec"]["containers"][0]["image"] = UPDATED_IMAGE
        return {"spec": {"template": template}}


def _clique(name: str, replicas: int, minimum: int | None = None) -> dict[str, Any]:
    container = {"name": "main", "image": IMAGE, "resources": {"requests": {"cpu": "10m"}}}
    spec = {
        "roleName": name,
        "replicas": replicas,
        "minAvailable": minimum or replicas,
        "podSpec": {"containers": [container]},
    }
    return {"name": name, "spec": spec}


def _pairs(replicas: int) -> Scenario:
    """Many small replicas: one clique of two pods each."""
    return Scenario(
        name=f"{replicas}x2",
        title=f"{replicas} replicas of 2 pods",
        nodes=20,
        replicas=replicas,
        podcliques=replicas,
        pods=2 * replicas,
        template={"cliques": [_clique("w", 2)]},
    )


def _plain(replicas: int) -> Scenario:
    """Small replicas where pods are placed one by one, as they were when the Go operator was measured."""
    name, title = f"{replicas}x2 plain", f"{replicas} replicas of 2 pods, no gangs in Kubernetes"
    return replace(_pairs(replicas), name=name, title=title, gangs=False)


def _large() -> Scenario:
    """One replica of few large cliques: four of 1000 pods, and a scaling group of two replicas of 500."""
    group = {"name": "g", "cliqueNames": ["e"], "replicas": 2, "minAvailable": 1}
    cliques = [*(_clique(name, 1000) for name in "abcd"), _clique("e", 500)]
    group_name, clique_name = f"{NAME}-0-g", f"{NAME}-0-a"
    return Scenario(
        name="5000",
        title="5000 pods in 6 cliques",
        nodes=100,
        replicas=1,
        podcliques=6,
        pods=5000,
        template={"cliques": cliques, "podCliqueScalingGroups": [group]},
        scales=(
            Scale("group out by 1000", PODCLIQUESCALINGGROUP, group_name, 4, 6000),
            Scale("group in by 1000", PODCLIQUESCALINGGROUP, group_name, 2, 5000),
            Scale("clique to idle, 1000 gone", PODCLIQUE, clique_name, 0, 4000),
            Scale("clique back to 1000", PODCLIQUE, clique_name, 1000, 5000),
        ),
    )


def _asked() -> Scenario:
    """500 replicas come up while the webhooks are asked."""
    return replace(_pairs(500), name="500x2 asked", title="500 replicas of 2 pods, with admission", admission=True)


def _updated(replicas: int) -> Scenario:
    """Small replicas are updated: by the rules one after the other, so most of the time is theirs to get ready.

    Both pods of a replica may be down together.
    """
    pairs = _pairs(replicas)
    (clique,) = pairs.template["cliques"]
    template = {"cliques": [clique | {"rollingUpdate": {"maxUnavailable": 2}}]}
    name, title = f"{replicas}x2 update", f"{replicas} replicas of 2 pods are updated"
    return replace(pairs, name=name, title=title, template=template, update=True)


def _chain() -> Scenario:
    """Five cliques of 200 pods that start one after the other; the scheduler has to place 20 of each together."""
    chain = dict.fromkeys("abcde", 20)
    cliques = [_clique(name, 200, minimum) for name, minimum in chain.items()]
    return Scenario(
        name="chain",
        title="5 cliques of 200 pods that start in order",
        nodes=20,
        replicas=1,
        podcliques=len(chain),
        pods=200 * len(chain),
        template={"cliques": cliques, "cliqueStartupType": "CliqueStartupTypeInOrder"},
        chain=chain,
    )


_ALL = (_pairs(100), _pairs(500), _plain(100), _plain(500), _large(), _asked(), _chain(), _updated(100), _updated(500))
SCENARIOS = {scenario.name: scenario for scenario in _ALL}
