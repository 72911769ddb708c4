"""The CustomResourceDefinitions say what the API documents, and the files in crds/ are the generator's output."""

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

# Every field: its path, its type, `!` when required, its default and its limits. Lists end with [], maps with {}.
CONDITIONS = """
conditions                              []object  key=type
conditions[].type                       string!   maxLength=316 pattern
conditions[].status                     string!   enum=True,False,Unknown
conditions[].observedGeneration         int64     minimum=0
conditions[].lastTransitionTime         time!
conditions[].reason                     string!   minLength=1 maxLength=1024 pattern
conditions[].message                    string!   maxLength=32768
"""
LAST_ERRORS = """
lastErrors                              []object
lastErrors[].code                       string!
lastErrors[].description                string!
lastErrors[].observedAt                 time!
"""
AUTO_SCALING = """
                                        object
.minReplicas                            int32
.maxReplicas                            int32!
.metrics                                []object  atomic
"""
TOPOLOGY = """
topologyConstraint                      object
topologyConstraint.topologyName         string
topologyConstraint.pack                 object
topologyConstraint.pack.required        string    minLength=1 maxLength=63 pattern
topologyConstraint.pack.preferred       string    minLength=1 maxLength=63 pattern
topologyConstraint.packDomain           string    minLength=1 maxLength=63 pattern
"""
SHARING = """
resourceSharing                         []object
resourceSharing[].name                  string!
resourceSharing[].namespace             string
resourceSharing[].scope                 string!   enum=AllReplicas,PerReplica
"""
GROUP_SHARING = f"""{SHARING}
resourceSharing[].filter                object
resourceSharing[].filter.childCliqueNames           []string
"""
SET_SHARING = f"""{GROUP_SHARING}
resourceSharing[].filter.childScalingGroupNames     []string
"""


def under(prefix: str, table: str) -> str:
    """The rows of `table` with `prefix` before each path."""
    return "\n".join(f"{prefix}{row}" for row in table.splitlines() if row.strip())


CLIQUE_SPEC = f"""
spec                                    object!
spec.roleName                           string
spec.podSpec                            object!
spec.replicas                           int32     minimum=0
spec.minAvailable                       int32
spec.startsAfter                        []string
{under("spec.autoScalingConfig", AUTO_SCALING)}
"""

STARTUP_TYPES = "CliqueStartupTypeAnyOrder,CliqueStartupTypeInOrder,CliqueStartupTypeExplicit"

FIELDS = {
    "PodCliqueSet": f"""
spec                                    object!
spec.replicas                           int32     default=0 minimum=0
spec.updateStrategy                     object
spec.updateStrategy.type                string    default=RollingRecreate enum=RollingRecreate,OnDelete
spec.template                           object!
spec.template.cliques                   []object! key=name
spec.template.cliques[].name            string!
spec.template.cliques[].labels          {{}}string
spec.template.cliques[].annotations     {{}}string
{under("spec.template.cliques[].", TOPOLOGY)}
{under("spec.template.cliques[].", SHARING)}
{under("spec.template.cliques[].", CLIQUE_SPEC)}
spec.template.cliqueStartupType         string    default=CliqueStartupTypeAnyOrder enum={STARTUP_TYPES}
spec.template.priorityClassName         string
spec.template.headlessServiceConfig     object
spec.template.headlessServiceConfig.publishNotReadyAddresses    boolean     default=true
{under("spec.template.", TOPOLOGY)}
spec.template.terminationDelay          string    pattern
spec.template.resourceClaimTemplates    []object
spec.template.resourceClaimTemplates[].name             string!
spec.template.resourceClaimTemplates[].templateSpec     object!
{under("spec.template.", SET_SHARING)}
spec.template.podCliqueScalingGroups                    []object
spec.template.podCliqueScalingGroups[].name             string!
spec.template.podCliqueScalingGroups[].cliqueNames      []string!
spec.template.podCliqueScalingGroups[].annotations      {{}}string
spec.template.podCliqueScalingGroups[].replicas         int32       default=1 minimum=0
spec.template.podCliqueScalingGroups[].minAvailable     int32       default=1
{under("spec.template.podCliqueScalingGroups[].scaleConfig", AUTO_SCALING)}
{under("spec.template.podCliqueScalingGroups[].", GROUP_SHARING)}
{under("spec.template.podCliqueScalingGroups[].", TOPOLOGY)}
status                                  object
status.observedGeneration               int64
{under("status.", CONDITIONS)}
{under("status.", LAST_ERRORS)}
status.replicas                         int32
status.availableReplicas                int32     default=0
status.updatedReplicas                  int32     default=0
status.hpaPodSelector                   string
status.podGangStatuses                  []object
status.podGangStatuses[].name           string!
status.podGangStatuses[].phase          string!   enum=Pending,Starting,Running,Failed,Succeeded
{under("status.podGangStatuses[].", CONDITIONS)}
status.currentGenerationHash            string
status.updateProgress                   object
status.updateProgress.updateStartedAt   time
status.updateProgress.updateEndedAt     time
status.updateProgress.updatedPodCliquesCount                    int32   default=0
status.updateProgress.totalPodCliquesCount                      int32   default=0
status.updateProgress.updatedPodCliqueScalingGroupsCount        int32   default=0
status.updateProgress.totalPodCliqueScalingGroupsCount          int32   default=0
status.updateProgress.currentlyUpdating                         []object
status.updateProgress.currentlyUpdating[].replicaIndex          int32!
status.updateProgress.currentlyUpdating[].updateStartedAt       time
status.updateProgress.currentlyUpdating[].updateEndedAt         time
""",
    "PodClique": f"""
{CLIQUE_SPEC}
status                                  object
status.observedGeneration               int64
{under("status.", LAST_ERRORS)}
status.replicas                         int32
status.readyReplicas                    int32     default=0
status.updatedReplicas                  int32     default=0
status.scheduleGatedReplicas            int32     default=0
status.scheduledReplicas                int32     default=0
status.hpaPodSelector                   string
{under("status.", CONDITIONS)}
status.currentPodCliqueSetGenerationHash    string
status.currentPodTemplateHash               string
status.updateProgress                       object
status.updateProgress.updateStartedAt       time
status.updateProgress.updateEndedAt         time
status.updateProgress.podCliqueSetGenerationHash                    string!
status.updateProgress.podTemplateHash                               string!
status.updateProgress.readyPodsSelectedToUpdate                     object
status.updateProgress.readyPodsSelectedToUpdate.current             string!
status.updateProgress.readyPodsSelectedToUpdate.completed           []string
""",
    "PodCliqueScalingGroup": f"""
spec                                    object!
spec.replicas                           int32     default=1 minimum=0
spec.minAvailable                       int32     default=1
spec.cliqueNames                        []string!
status                                  object
status.replicas                         int32
status.scheduledReplicas                int32     default=0
status.availableReplicas                int32     default=0
status.updatedReplicas                  int32     default=0
status.selector                         string
status.observedGeneration               int64
{under("status.", LAST_ERRORS)}
{under("status.", CONDITIONS)}
status.currentPodCliqueSetGenerationHash    string
status.updateProgress                       object
status.updateProgress.updateStartedAt       time!
status.updateProgress.updateEndedAt         time
status.updateProgress.podCliqueSetGenerationHash                        string!
status.updateProgress.updatedPodCliquesCount                            int32   default=0
status.updateProgress.totalPodCliquesCount                              int32   default=0
status.updateProgress.readyReplicaIndicesSelectedToUpdate               object
status.updateProgress.readyReplicaIndicesSelectedToUpdate.current       int32!
status.updateProgress.readyReplicaIndicesSelectedToUpdate.completed     []int32
""",
    "ClusterTopologyBinding": f"""
spec                                    object!
spec.levels                             []object! minItems=1
spec.levels[].domain                    string!   minLength=1 maxLength=63 pattern
spec.levels[].key                       string!   minLength=1 maxLength=63 pattern
spec.schedulerTopologyBindings                          []object
spec.schedulerTopologyBindings[].schedulerName          string!
spec.schedulerTopologyBindings[].topologyReference      string!
status                                  object
status.observedGeneration               int64
{under("status.", CONDITIONS)}
status.schedulerTopologyStatuses                        []object
status.schedulerTopologyStatuses[].schedulerName        string!
status.schedulerTopologyStatuses[].topologyReference    string!
status.schedulerTopologyStatuses[].inSync               boolean!
status.schedulerTopologyStatuses[].schedulerBackendTopologyObservedGeneration   int64
status.schedulerTopologyStatuses[].message              string
""",
    "PodGang": f"""
spec                                    object!
spec.podgroups                          []object!
spec.podgroups[].name                   string!
spec.podgroups[].podReferences          []object!
spec.podgroups[].podReferences[].namespace      string!
spec.podgroups[].podReferences[].name           string!
spec.podgroups[].minReplicas                    int32!
spec.podgroups[].topologyConstraint                             object
spec.podgroups[].topologyConstraint.packConstraint              object
spec.podgroups[].topologyConstraint.packConstraint.required     string
spec.podgroups[].topologyConstraint.packConstraint.preferred    string
spec.topologyConstraint                                         object
spec.topologyConstraint.packConstraint                          object
spec.topologyConstraint.packConstraint.required                 string
spec.topologyConstraint.packConstraint.preferred                string
spec.topologyConstraintGroupConfigs                             []object
spec.topologyConstraintGroupConfigs[].name                      string!
spec.topologyConstraintGroupConfigs[].podGroupNames             []string!
spec.topologyConstraintGroupConfigs[].topologyConstraint                            object
spec.topologyConstraintGroupConfigs[].topologyConstraint.packConstraint             object
spec.topologyConstraintGroupConfigs[].topologyConstraint.packConstraint.required    string
spec.topologyConstraintGroupConfigs[].topologyConstraint.packConstraint.preferred   string
spec.priorityClassName                  string
spec.reuseReservationRef                object
spec.reuseReservationRef.namespace      string!
spec.reuseReservationRef.name           string!
status                                  object
status.phase                            string
{under("status.", CONDITIONS)}
status.placementScore                   number
""",
}

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

EMBEDDED = (".podSpec", ".metrics", ".templateSpec")


def version_of(kind: str) -> dict[str, Any]:
    (version,) = CRDS[kind]["spec"]["versions"]
    assert isinstance(version, dict)
    return version


def schema_of(kind: str) -> dict[str, Any]:
    schema = version_of(kind)["schema"]["openAPIV3Schema"]
    assert isinstance(schema, dict)
    return schema


def rows(path: str, node: dict[str, Any], required: bool) -> Iterator[str]:
    """One row for the field at `path` and each field below it."""
    leaf, prefix = node, ""
    if "items" in node:
        leaf, prefix = node["items"], "[]"
    elif "additionalProperties" in node:
        leaf, prefix = node["additionalProperties"], "{}"
    kind = {"int32": "int32", "int64": "int64", "date-time": "time"}.get(leaf.get("format", ""), leaf["type"])
    facts = [
        f"{key}={json.dumps(node[key]).strip(chr(34))}"
        for key in ("default", "minimum", "minLength", "maxLength", "minItems")
        if key in node
    ]
    facts += [f"enum={','.join(node['enum'])}"] if "enum" in node else []
    facts += [f"key={','.join(node['x-kubernetes-list-map-keys'])}"] if "x-kubernetes-list-map-keys" in node else []
    facts += ["atomic"] if node.get("x-kubernetes-list-type") == "atomic" else []
    facts += ["pattern"] if "pattern" in node else []
    yield " ".join([path, prefix + kind + "!" * required, *sorted(facts)])
    if not path.endswith(EMBEDDED):
        below = f"{path}[]" if prefix == "[]" else path
        for name, child in leaf.get("properties", {}).items():
            yield from rows(f"{below}.{name}", child, name in leaf.get("required", ()))


def normalized(row: str) -> str:
    path, kind, *facts = row.split()
    return " ".join([path, kind, *sorted(facts)])


def schemas(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A schema and every schema in it."""
    yield node
    for child in node.get("properties", {}).values():
        yield from schemas(child)
    for key in ("items", "additionalProperties"):
        if key in node:
            yield from schemas(node[key])


@pytest.mark.parametrize("kind", KINDS)
def test_every_documented_field_and_no_other(kind: str) -> None:
    schema = schema_of(kind)
    actual = [
        row
        for name in ("spec", "status")
        for row in rows(name, schema["properties"][name], name in schema.get("required", ()))
    ]
    assert sorted(actual) == sorted(normalized(row) for row in FIELDS[kind].splitlines() if row.strip())


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_is_explained(kind: str) -> None:
    def unexplained(path: str, node: dict[str, Any]) -> Iterator[str]:
        if not node.get("description", "").strip() and not path.endswith(".metadata"):
            yield path
        if not path.endswith(EMBEDDED):
            for name, child in node.get("items", node).get("properties", {}).items():
                yield from unexplained(f"{path}.{name}", child)

    assert [*unexplained(kind, schema_of(kind))] == []


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
    assert rules(pcs) == [
        (".spec.template.topologyConstraint.packDomain", "FieldValueForbidden", True),
        (".spec.template.cliques", "FieldValueForbidden", True),
        (".spec.template.podCliqueScalingGroups", "FieldValueForbidden", True),
    ]
    template = pcs["properties"]["spec"]["properties"]["template"]["properties"]
    for level in (template, template["cliques"]["items"]["properties"]):
        constraint = level["topologyConstraint"]
        assert rules(constraint) == [(".pack", "FieldValueRequired", False), (".pack.required", "", False)]
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
    assert "5 CustomResourceDefinitions are up to date" in result.output


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
    assert "grove.io_podcliquesets.yaml differs from the models" in result.output
    assert "grove.io_others.yaml is not one of Grove's" in result.output
    assert f"Run `grove crds -o {tmp_path}`" in result.output
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
