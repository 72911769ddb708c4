"""The chart as users install it, the operator under the rights it grants, and what the API server says of their use."""

import base64
import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from grove.cluster import binaries
from tests.cluster.harness import ROOT, Harness

Object = dict[str, Any]

CHART = ROOT / "charts" / "grove"
NAMESPACE = "grove-system"
RELEASE = "grove"
ACCOUNT = "grove-operator"
USER = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"

_POLICY = f"""
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules: [{{level: Metadata, users: ["{USER}"]}}, {{level: None}}]
"""


def audited(folder: Path) -> dict[str, str]:
    """Flags of an API server that writes down every request of the chart's ServiceAccount, and judges as OpenShift does
    who may make an object block the deletion of its owner.
    """
    policy = folder / "audit-policy.yaml"
    policy.write_text(_POLICY)
    return {
        "audit-policy-file": str(policy),
        "audit-log-path": str(folder / "audit.log"),
        "enable-admission-plugins": "OwnerReferencesPermissionEnforcement",
    }


def helm(*arguments: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run helm. A failure fails the test if `check`."""
    program = binaries.find_or_build(tools=(binaries.HELM,))["helm"]
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, f"helm {' '.join(map(str, arguments))}:\n{done.stderr}"
    return done


def render(*arguments: str, check: bool = True) -> list[Object]:
    """The objects of `helm template`, CustomResourceDefinitions aside."""
    done = helm("template", RELEASE, CHART, "--namespace", NAMESPACE, *arguments, check=check)
    return [obj for obj in yaml.safe_load_all(done.stdout) if obj]


def one(objects: list[Object], kind: str, name: str = "") -> Object:
    """The only object of a kind (and name)."""
    (found,) = (obj for obj in objects if obj["kind"] == kind and name in ("", obj["metadata"]["name"]))
    return found


def grant(cluster: Harness, folder: Path) -> None:
    """Give the chart's ServiceAccount its rights, with every scheduler's profile, and install nothing else."""
    kinds = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
    cluster.kubectl("create", "namespace", NAMESPACE)
    file = folder / "rights.yaml"
    file.write_text(yaml.safe_dump_all([obj for obj in _with_every_scheduler() if obj["kind"] in kinds]))
    cluster.kubectl("apply", "-f", file)


def _with_every_scheduler() -> list[Object]:
    profiles = ("default-scheduler", "kai-scheduler", "volcano")
    sets = [f"config.scheduler.profiles[{index}].name={name}" for index, name in enumerate(profiles)]
    sets.append("config.topologyAwareScheduling.enabled=true")
    return render(*(argument for value in sets for argument in ("--set", value)))


def account_kubeconfig(cluster: Harness, folder: Path) -> Path:
    """A kubeconfig with a token of the chart's ServiceAccount and nothing else."""
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{ACCOUNT}/token"
    answer = cluster.api("POST", path, {"spec": {"expirationSeconds": 7200}})
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    config["users"] = [{"name": ACCOUNT, "user": {"token": answer["status"]["token"]}}]
    config["contexts"] = [
        {
            "name": ACCOUNT,
            "context": {"cluster": config["clusters"][0]["name"], "user": ACCOUNT, "namespace": NAMESPACE},
        }
    ]
    config["current-context"] = ACCOUNT
    file = folder / "account.kubeconfig"
    file.write_text(yaml.safe_dump(config))
    return file


@dataclass(frozen=True, order=True)
class Right:
    """One verb on one resource, of one object where `name` says so. Rights to create carry no name."""

    group: str
    resource: str
    verb: str
    name: str = ""

    def covers(self, other: "Right") -> bool:
        """Whether this right, as granted, allows the other, as used."""
        same = (self.group, self.resource, self.verb) == (other.group, other.resource, other.verb)
        return same and self.name in ("", other.name)


def granted(rules: list[Object]) -> set[Right]:
    """The rights that rules of a Role grant."""
    return {
        Right(group, resource, verb, name)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", ("",))
    }


def used(folder: Path) -> Iterator[tuple[Right, Mapping[str, Any]]]:
    """The rights that the ServiceAccount has used, refused ones included, each with its entry in the audit log."""
    for file in folder.glob("audit*.log"):  # the API server begins a new one when it becomes large
        with file.open() as lines:
            for entry in map(json.loads, lines):
                ref = entry.get("objectRef") or {}
                if "resource" in ref:
                    resource = "/".join(filter(None, (ref["resource"], ref.get("subresource"))))
                    yield Right(ref.get("apiGroup", ""), resource, entry["verb"], ref.get("name", "")), entry


def forbidden(folder: Path) -> list[str]:
    """Requests that the API server refused for want of a right."""
    return [_told(right, entry) for right, entry in _refused(folder)]


def lacking(folder: Path) -> list[str]:
    """Those of them that `grant` has not granted: an API server that has just started refuses the others too."""
    everywhere, here = (
        granted([rule for obj in _with_every_scheduler() if obj["kind"] == kind for rule in obj["rules"]])
        for kind in ("ClusterRole", "Role")
    )
    return [
        _told(right, entry)
        for right, entry in _refused(folder)
        if not any(
            one.covers(right)
            for one in everywhere | (here if entry["objectRef"].get("namespace") == NAMESPACE else set())
        )
    ]


def _refused(folder: Path) -> Iterator[tuple[Right, Mapping[str, Any]]]:
    for right, entry in used(folder):
        if entry["annotations"].get("authorization.k8s.io/decision") == "forbid":
            yield right, entry


def _told(right: Right, entry: Mapping[str, Any]) -> str:
    return f"{right}: {entry['annotations'].get('authorization.k8s.io/reason') or 'no rule'}"


def unused(rules: list[Object], folder: Path) -> set[Right]:
    """The rights that rules grant and nobody has used."""
    seen = {right for right, _ in used(folder)}
    return {right for right in granted(rules) if not any(right.covers(other) for other in seen)}


SELECTOR = re.compile(
    r"\b((?:grove|workqueue|rest_client|informer|leader|controller_runtime|process)_\w+)(?:{([^}]*)})?"
)
"""A series in a PromQL expression, and what is asked of its labels."""


def asked_for(expression: str) -> Iterator[tuple[str, dict[str, str]]]:
    """The series that a PromQL expression asks for, each with the labels it names and, where one is given, the value.

    Left out are the labels that a scrape adds.
    """
    grouped = {label: "" for labels in re.findall(r"\bby \(([^)]*)\)", expression) for label in labels.split(", ")}
    for name, matchers in SELECTOR.findall(re.sub(r"\bby \([^)]*\)", "", expression)):
        exact = {label: value if sign == "=" else "" for label, sign, value in MATCHER.findall(matchers)}
        yield name, {label: value for label, value in (grouped | exact).items() if label != "job"}


MATCHER = re.compile(r'(\w+)\s*(=~|!=|=)\s*"([^"]*)"')


def certificate_of(secret: Object) -> bytes:
    """The served certificate in a Secret, PEM."""
    return base64.b64decode(secret["data"]["tls.crt"])
