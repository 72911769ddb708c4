"""The CustomResourceDefinitions have every documented field with its type, default and limits, and explain each."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from grove.api import crd

SCHEMAS = {definition.model.KIND: crd.schema(definition.model) for definition in crd.DEFINITIONS}
KINDS = pytest.mark.parametrize("kind", SCHEMAS)

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
.minReplicas                            int32     minimum=1
.maxReplicas                            int32!    minimum=1
.metrics                                []object  atomic
"""
TOPOLOGY = """
topologyConstraint                      object
topologyConstraint.topologyName         string    maxLength=253
topologyConstraint.pack                 object
topologyConstraint.pack.required        string    minLength=1 maxLength=63 pattern
topologyConstraint.pack.preferred       string    minLength=1 maxLength=63 pattern
topologyConstraint.packDomain           string    minLength=1 maxLength=63 pattern
"""
ROLLING_UPDATE = """
rollingUpdate                           object
rollingUpdate.maxUnavailable            int-or-string  minimum=1 pattern
rollingUpdate.progressDeadline          string    pattern
"""
SHARING = """
resourceSharing                         []object  maxItems=32
resourceSharing[].name                  string!   maxLength=63 pattern
resourceSharing[].namespace             string    maxLength=63
resourceSharing[].scope                 string!   enum=AllReplicas,PerReplica
"""
GROUP_SHARING = f"""{SHARING}
resourceSharing[].filter                object
resourceSharing[].filter.childCliqueNames           []string    maxItems=256
"""
SET_SHARING = f"""{GROUP_SHARING}
resourceSharing[].filter.childScalingGroupNames     []string    maxItems=256
"""


def under(prefix: str, table: str) -> str:
    """The rows of `table` with `prefix` before each path."""
    return "\n".join(f"{prefix}{row}" for row in table.splitlines() if row.strip())


CLIQUE_SPEC = f"""
spec                                    object!
spec.roleName                           string
spec.podSpec                            object!
spec.replicas                           int32     minimum=0 maximum=10000
spec.minAvailable                       int32     minimum=1
spec.startsAfter                        []string
{under("spec.autoScalingConfig", AUTO_SCALING)}
"""
# Rules that compare cliques with each other need limits.
CLIQUE_SPEC_IN_A_SET = re.sub(
    "(roleName.*)", r"\1 maxLength=253", re.sub("(startsAfter.*)", r"\1 maxItems=256", CLIQUE_SPEC)
)

STARTUP_TYPES = "CliqueStartupTypeAnyOrder,CliqueStartupTypeInOrder,CliqueStartupTypeExplicit"

FIELDS = {
    "PodCliqueSet": f"""
spec                                    object!
spec.replicas                           int32     default=0 minimum=0 maximum=10000
spec.updateStrategy                     object
spec.updateStrategy.type                string    default=RollingRecreate enum=RollingRecreate,OnDelete
spec.template                           object!
spec.template.cliques                   []object! key=name minItems=1 maxItems=256
spec.template.cliques[].name            string!   maxLength=63 pattern
spec.template.cliques[].labels          {{}}string
spec.template.cliques[].annotations     {{}}string
{under("spec.template.cliques[].", TOPOLOGY)}
{under("spec.template.cliques[].", SHARING)}
{under("spec.template.cliques[].", ROLLING_UPDATE)}
{under("spec.template.cliques[].", CLIQUE_SPEC_IN_A_SET)}
spec.template.cliqueStartupType         string    default=CliqueStartupTypeAnyOrder enum={STARTUP_TYPES}
spec.template.priorityClassName         string
spec.template.headlessServiceConfig     object
spec.template.headlessServiceConfig.publishNotReadyAddresses    boolean     default=true
{under("spec.template.", TOPOLOGY)}
spec.template.terminationDelay          string    maxLength=64 pattern
spec.template.resourceClaimTemplates    []object  key=name
spec.template.resourceClaimTemplates[].name             string!     maxLength=63 pattern
spec.template.resourceClaimTemplates[].templateSpec     object!
{under("spec.template.", SET_SHARING)}
spec.template.podCliqueScalingGroups                    []object    key=name maxItems=128
spec.template.podCliqueScalingGroups[].name             string!     maxLength=63 pattern
spec.template.podCliqueScalingGroups[].cliqueNames      []string!   set minItems=1 maxItems=256
spec.template.podCliqueScalingGroups[].annotations      {{}}string
spec.template.podCliqueScalingGroups[].replicas         int32       default=1 minimum=0 maximum=10000
spec.template.podCliqueScalingGroups[].minAvailable     int32       default=1 minimum=1
{under("spec.template.podCliqueScalingGroups[].scaleConfig", AUTO_SCALING)}
{under("spec.template.podCliqueScalingGroups[].", GROUP_SHARING)}
{under("spec.template.podCliqueScalingGroups[].", TOPOLOGY)}
{under("spec.template.podCliqueScalingGroups[].", ROLLING_UPDATE)}
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
status.podsTerminatedUntil              time
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
spec.replicas                           int32     default=1 minimum=0 maximum=10000
spec.minAvailable                       int32     default=1 minimum=1
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
spec.levels                             []object! minItems=1 maxItems=64
spec.levels[].domain                    string!   minLength=1 maxLength=63 pattern
spec.levels[].key                       string!   minLength=1 maxLength=63 pattern
spec.schedulerTopologyBindings                          []object    maxItems=64
spec.schedulerTopologyBindings[].schedulerName          string!     maxLength=253
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

EMBEDDED = (".podSpec", ".metrics", ".templateSpec")


def rows(path: str, node: dict[str, Any], required: bool) -> Iterator[str]:
    """One row for the field at `path` and each field below it."""
    leaf, prefix = node, ""
    if "items" in node:
        leaf, prefix = node["items"], "[]"
    elif "additionalProperties" in node:
        leaf, prefix = node["additionalProperties"], "{}"
    kind = {"int32": "int32", "int64": "int64", "date-time": "time"}.get(leaf.get("format", ""), leaf.get("type"))
    kind = "int-or-string" if leaf.get("x-kubernetes-int-or-string") else str(kind)
    facts = [
        f"{key}={json.dumps(node[key]).strip(chr(34))}"
        for key in ("default", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems")
        if key in node
    ]
    facts += [f"enum={','.join(node['enum'])}"] if "enum" in node else []
    facts += [f"key={','.join(node['x-kubernetes-list-map-keys'])}"] if "x-kubernetes-list-map-keys" in node else []
    facts += [kind_of for kind_of in ("atomic", "set") if node.get("x-kubernetes-list-type") == kind_of]
    facts += ["pattern"] if "pattern" in node else []
    yield " ".join([path, prefix + kind + "!" * required, *sorted(facts)])
    if not path.endswith(EMBEDDED):
        below = f"{path}[]" if prefix == "[]" else path
        for name, child in leaf.get("properties", {}).items():
            yield from rows(f"{below}.{name}", child, name in leaf.get("required", ()))


def normalized(row: str) -> str:
    path, kind, *facts = row.split()
    return " ".join([path, kind, *sorted(facts)])


@KINDS
def test_every_documented_field_and_no_other(kind: str) -> None:
    schema = SCHEMAS[kind]
    actual = [
        row
        for name in ("spec", "status")
        for row in rows(name, schema["properties"][name], name in schema.get("required", ()))
    ]
    assert sorted(actual) == sorted(normalized(row) for row in FIELDS[kind].splitlines() if row.strip())


@KINDS
def test_every_field_is_explained(kind: str) -> None:
    def unexplained(path: str, node: dict[str, Any]) -> Iterator[str]:
        if not node.get("description", "").strip() and not path.endswith(".metadata"):
            yield path
        if not path.endswith((*EMBEDDED, ".metadata")):
            for name, child in node.get("items", node).get("properties", {}).items():
                yield from unexplained(f"{path}.{name}", child)

    assert [*unexplained(kind, SCHEMAS[kind])] == []
