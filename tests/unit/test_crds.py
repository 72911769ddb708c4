"""The CustomResourceDefinitions are whole and well formed, and the files in crds/ are the generator's output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from grove.api import crd, kubernetes
from grove.cli.crds import crds

ROOT = Path(__file__).parents[2]
MANIFESTS = crd.manifests()
CRDS = {definition.model.KIND: crd.custom_resource_definition(definition) for definition in crd.DEFINITIONS}
KINDS = ["PodCliqueSet", "PodClique", "PodCliqueScalingGroup", "ClusterTopologyBinding", "PodGang"]

BREACHED = 'MinBreached string .status.conditions[?(@.type=="MinAvailableBreached")].status priority=1'
COLUMNS = {
    "PodCliqueSet": """
        Replicas integer .spec.replicas
        Available integer .status.availableReplicas
        Updated integer .status.updatedReplicas
        PCLQs-Updated integer .status.updateProgress.updatedPodCliquesCount
        PCLQs-Total integer .status.updateProgress.totalPodCliquesCount
        PCSGs-Updated integer .status.updateProgress.updatedPodCliqueScalingGroupsCount
        PCSGs-Total integer .status.updateProgress.totalPodCliqueScalingGroupsCount
        Updating string .status.conditions[?(@.type=="UpdateInProgress")].reason priority=1
        Age date .metadata.creationTimestamp
    """,
    "PodClique": f"""
        MinAvail integer .spec.minAvailable
        Replicas integer .spec.replicas
        Ready integer .status.readyReplicas
        Scheduled integer .status.scheduledReplicas
        Updated integer .status.updatedReplicas
        Gated integer .status.scheduleGatedReplicas priority=1
        {BREACHED}
        Age date .metadata.creationTimestamp
    """,
    "PodCliqueScalingGroup": f"""
        MinAvail integer .spec.minAvailable
        Replicas integer .spec.replicas
        Available integer .status.availableReplicas
        Scheduled integer .status.scheduledReplicas
        Updated integer .status.updatedReplicas
        PCLQs-Updated integer .status.updateProgress.updatedPodCliquesCount
        PCLQs-Total integer .status.updateProgress.totalPodCliquesCount
        {BREACHED}
        Age date .metadata.creationTimestamp
    """,
    "ClusterTopologyBinding": "Domains string .spec.levels[*].domain\nAge date .metadata.creationTimestamp",
    "PodGang": "Phase string .status.phase\nAge date .metadata.creationTimestamp",
}

# kind: CRD name, singular, short name, scope, selector path of the scale subresource
IDENTITY = {
    "PodCliqueSet": ("podcliquesets.grove.io", "podcliqueset", "pcs", "Namespaced", ".status.hpaPodSelector"),
    "PodClique": ("podcliques.grove.io", "podclique", "pclq", "Namespaced", ".status.hpaPodSelector"),
    "PodCliqueScalingGroup": (
        "podcliquescalinggroups.grove.io",
        "podcliquescalinggroup",
        "pcsg",
        "Namespaced",
        ".status.selector",
    ),
    "ClusterTopologyBinding": ("clustertopologybindings.grove.io", "clustertopologybinding", "ct", "Cluster", None),
    "PodGang": ("podgangs.scheduler.grove.io", "podgang", "pg", "Namespaced", None),
}


def version_of(kind: str) -> dict[str, Any]:
    (version,) = CRDS[kind]["spec"]["versions"]
    assert isinstance(version, dict)
    return version


def schema_of(kind: str) -> dict[str, Any]:
    schema = version_of(kind)["schema"]["openAPIV3Schema"]
    assert isinstance(schema, dict)
    return schema


def schemas(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A schema and every schema in it."""
    yield node
    for child in node.get("properties", {}).values():
        yield from schemas(child)
    for key in ("items", "additionalProperties"):
        if key in node:
            yield from schemas(node[key])


@pytest.mark.parametrize("kind", KINDS)
def test_columns(kind: str) -> None:
    actual = [
        f"{column['name']} {column['type']} {column['jsonPath']}"
        + (f" priority={column['priority']}" if "priority" in column else "")
        for column in version_of(kind)["additionalPrinterColumns"]
    ]
    assert actual == [row.strip() for row in COLUMNS[kind].strip().splitlines()]


@pytest.mark.parametrize("kind", KINDS)
def test_identity_and_subresources(kind: str) -> None:
    name, singular, short_name, scope, selector = IDENTITY[kind]
    plural, _, group = name.partition(".")
    obj = CRDS[kind]
    assert obj["metadata"]["name"] == name
    assert obj["spec"]["group"] == group
    assert obj["spec"]["scope"] == scope
    assert obj["spec"]["names"] == {
        "kind": kind,
        "listKind": f"{kind}List",
        "plural": plural,
        "singular": singular,
        "shortNames": [short_name],
        "categories": ["grove"],
    }
    version = version_of(kind)
    assert (version["name"], version["served"], version["storage"]) == ("v1alpha1", True, True)
    scale = {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": selector,
    }
    assert version["subresources"] == ({"status": {}, "scale": scale} if selector else {"status": {}})
    assert schema_of(kind)["required"] == ["spec"]
    assert f"{group}_{plural}.yaml" in MANIFESTS


@pytest.mark.parametrize("kind", KINDS)
def test_schemas_are_structural(kind: str) -> None:
    """What the API server demands of a structural schema, as far as it can be seen without one."""
    for node in schemas(schema_of(kind)):
        assert not {"$ref", "$defs", "allOf", "oneOf", "title"} & node.keys()
        if node.get("x-kubernetes-int-or-string"):
            assert "type" not in node
            assert node["anyOf"] == [{"type": "integer"}, {"type": "string"}]
        else:
            assert isinstance(node["type"], str)
            assert "anyOf" not in node
        assert not ("properties" in node and "additionalProperties" in node)
        assert set(node.get("required", ())) <= node.get("properties", {}).keys()
        for key in node.get("x-kubernetes-list-map-keys", ()):
            items = node["items"]
            assert key in items.get("required", ()) or "default" in items["properties"][key]


def test_rules() -> None:
    def rules(node: dict[str, Any]) -> list[tuple[str, str, bool]]:
        return [
            (rule.get("fieldPath", ""), rule.get("reason", ""), rule.get("optionalOldSelf", False))
            for rule in node.get("x-kubernetes-validations", ())
        ]

    pcs = schema_of("PodCliqueSet")
    assert rules(pcs)[:3] == [
        (".spec.template.topologyConstraint.packDomain", "FieldValueForbidden", True),
        (".spec.template.cliques", "FieldValueForbidden", True),
        (".spec.template.podCliqueScalingGroups", "FieldValueForbidden", True),
    ]
    template = pcs["properties"]["spec"]["properties"]["template"]["properties"]
    for level in (template, template["cliques"]["items"]["properties"]):
        constraint = level["topologyConstraint"]
        assert rules(constraint)[:2] == [(".pack", "FieldValueRequired", False), (".pack.required", "", False)]
        assert rules(constraint["properties"]["pack"]) == [("", "FieldValueRequired", False)]
    for kind in ("PodClique", "PodCliqueScalingGroup"):
        assert rules(schema_of(kind)["properties"]["spec"]) == [(".replicas", "", False)]


def test_the_pod_spec_is_whole() -> None:
    pod_spec = schema_of("PodClique")["properties"]["spec"]["properties"]["podSpec"]
    assert pod_spec["required"] == ["containers"]
    container = pod_spec["properties"]["containers"]["items"]
    assert container["required"] == ["name"]
    assert pod_spec["properties"]["containers"]["x-kubernetes-list-map-keys"] == ["name"]
    ports = container["properties"]["ports"]
    assert ports["x-kubernetes-list-map-keys"] == ["containerPort", "protocol"]
    assert ports["items"]["properties"]["protocol"] == {"type": "string", "default": "TCP"}
    assert ports["items"]["properties"]["containerPort"] == {"type": "integer", "format": "int32"}
    probe_port = container["properties"]["livenessProbe"]["properties"]["httpGet"]["properties"]["port"]
    assert probe_port["x-kubernetes-int-or-string"] is True
    limits = container["properties"]["resources"]["properties"]["limits"]["additionalProperties"]
    assert limits["x-kubernetes-int-or-string"] is True
    expected = """affinity containers initContainers nodeSelector priorityClassName resourceClaims schedulerName
        schedulingGates securityContext serviceAccountName tolerations topologySpreadConstraints volumes"""
    assert set(expected.split()) <= pod_spec["properties"].keys()
    constraints = pod_spec["properties"]["topologySpreadConstraints"]
    assert constraints["x-kubernetes-list-map-keys"] == ["topologyKey", "whenUnsatisfiable"]


def test_kubernetes_own_types_have_no_descriptions_and_no_empty_defaults_but_for_list_keys() -> None:
    empty = []
    for name in kubernetes.SOURCES:
        for node in schemas(kubernetes.load(name)):
            assert "description" not in node
            for field, child in node.get("properties", {}).items():
                empty += [field] if "default" in child and not child["default"] else []
    assert empty == ["name"], "of an image pull secret"


def test_no_more_is_claimed_of_topology_than_holds() -> None:  # G13
    template = schema_of("PodCliqueSet")["properties"]["spec"]["properties"]["template"]
    assert "not across them" in template["properties"]["topologyConstraint"]["description"]


@pytest.mark.parametrize("name", sorted(MANIFESTS))
def test_files_are_small_enough_for_kubectl_apply(name: str) -> None:
    """kubectl apply keeps the whole object in an annotation, and annotations have 256 KiB together."""
    assert len(MANIFESTS[name].encode()) < 256 * 1024
    assert len(json.dumps(yaml.safe_load(MANIFESTS[name]))) < 256 * 1024


def test_the_text_says_what_the_definition_says() -> None:
    assert [yaml.safe_load(text) for text in MANIFESTS.values()] == [*CRDS.values()]


def test_the_files_in_the_repository_are_the_output() -> None:
    result = CliRunner().invoke(crds, ["--check", "-o", str(ROOT / "crds")])
    assert result.exit_code == 0, result.output
    assert result.output.count("up to date") == 5


def test_the_output_does_not_depend_on_hash_order() -> None:
    program = (
        "import hashlib; from grove.api import crd; print(hashlib.sha256(str(crd.manifests()).encode()).hexdigest())"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            check=True,
            capture_output=True,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    result = CliRunner().invoke(crds, ["-o", str(file / "crds")])
    assert result.exit_code == 1
    assert f"cannot write {file / 'crds'}" in result.output
    assert isinstance(result.exception, SystemExit)


def test_crds_writes_what_check_accepts(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "crds"
    result = CliRunner().invoke(crds, ["-o", str(folder)])
    assert result.exit_code == 0, result.output
    assert {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()} == MANIFESTS
    assert CliRunner().invoke(crds, ["--check", "-o", str(folder)]).exit_code == 0


def test_check_names_every_difference_and_changes_nothing(tmp_path: Path) -> None:
    CliRunner().invoke(crds, ["-o", str(tmp_path)])
    (tmp_path / "grove.io_podcliques.yaml").unlink()
    (tmp_path / "grove.io_podcliquesets.yaml").write_text("old", encoding="utf-8")
    (tmp_path / "grove.io_others.yaml").write_text("", encoding="utf-8")
    result = CliRunner().invoke(crds, ["--check", "-o", str(tmp_path)])
    assert result.exit_code == 1
    assert "grove.io_podcliques.yaml is missing" in result.output
    assert "grove.io_podcliquesets.yaml differs from what the code says" in result.output
    assert "grove.io_others.yaml is not one of Grove's" in result.output
    assert "Run the same without --check" in result.output
    assert (tmp_path / "grove.io_podcliquesets.yaml").read_text(encoding="utf-8") == "old"


KUBECTL = """#!/bin/sh
case "$*" in
  *"get --raw /version") echo '{"gitVersion": "v9.9.9"}' ;;
  *"get --raw /openapi/v3/"*) cat "$OPENAPI" ;;
  *) echo "unexpected: $*" >&2; exit 1 ;;
esac
"""


def openapi_document() -> dict[str, Any]:
    field = {"type": "object", "description": "long", "properties": {"a": {"type": "string", "default": ""}}}
    return {"components": {"schemas": {source.schema: field for source in kubernetes.SOURCES.values()}}}


def fake_kubectl(folder: Path, script: str) -> None:
    (folder / "kubectl").write_text(script, encoding="utf-8")
    (folder / "kubectl").chmod(0o755)


def test_refresh_fetches_every_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_kubectl(tmp_path, KUBECTL)
    (tmp_path / "openapi.json").write_text(json.dumps(openapi_document()), encoding="utf-8")
    (tmp_path / "schemas").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("OPENAPI", str(tmp_path / "openapi.json"))
    monkeypatch.setattr(kubernetes, "__path__", [str(tmp_path / "schemas")])
    arguments = ["--refresh-kubernetes-schemas", "--kubeconfig", str(tmp_path), "-o", str(tmp_path / "crds")]
    result = CliRunner().invoke(crds, arguments)
    assert result.exit_code == 0, result.output
    assert sorted(path.stem for path in (tmp_path / "schemas").iterdir()) == sorted(kubernetes.SOURCES)
    for path in (tmp_path / "schemas").iterdir():
        schema = {"type": "object", "properties": {"a": {"type": "string"}}}
        assert json.loads(path.read_bytes()) == {"kubernetes": "v9.9.9", "schema": schema}


def test_refresh_says_what_went_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    result = CliRunner().invoke(crds, ["--refresh-kubernetes-schemas"])
    assert result.exit_code == 1
    assert "kubectl is needed" in result.output
    fake_kubectl(tmp_path, "#!/bin/sh\necho no such cluster >&2\nexit 1\n")
    result = CliRunner().invoke(crds, ["--refresh-kubernetes-schemas"])
    assert result.exit_code == 1
    assert "could not fetch /version: no such cluster" in result.output
