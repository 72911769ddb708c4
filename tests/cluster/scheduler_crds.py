"""CustomResourceDefinitions of KAI and Volcano as far as Grove deals with them, written for the tests.

They are structural, so the API server drops what it does not know, and they refuse what the real ones refuse: KAI's
webhook rules for sub-groups are rules of the schema here.
"""

from typing import Any

Object = dict[str, Any]

COUNT: Object = {"type": "integer", "format": "int32", "minimum": 0}
TEXT: Object = {"type": "string"}
LABEL: Object = {"type": "string", "maxLength": 63, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}
FREE: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def kai_podgroups(version: str = "0.15") -> Object:
    """KAI's PodGroup, of version 0.14 (no minSubGroup: only its pod grouper makes PodGroups), 0.15 or 0.17."""
    modern = version != "0.14"
    constraint = _object(topology=TEXT, requiredTopologyLevel=TEXT, preferredTopologyLevel=TEXT)
    subgroup = _object(name=LABEL if modern else TEXT, parent=TEXT, minMember=COUNT, topologyConstraint=constraint)
    subgroup["required"] = ["name"]
    spec = _object(
        minMember={**COUNT, "minimum": 0 if version == "0.17" else 1},
        queue=TEXT,
        priorityClassName=TEXT,
        preemptibility={"type": "string", "enum": ["preemptible", "non-preemptible"]},
        markUnschedulable={"type": "boolean"},
        schedulingBackoff={"type": "integer", "format": "int32"},
        topologyConstraint=constraint,
        subGroups={
            "type": "array",
            "maxItems": 64,
            "items": subgroup,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
    )
    if version == "0.17":
        spec["properties"]["stalenessGracePeriod"] = TEXT
    if modern:
        subgroup["properties"]["minSubGroup"] = COUNT
        spec["properties"]["minSubGroup"] = {**COUNT, "minimum": 1}
        spec["x-kubernetes-validations"] = [
            _rule("!has(self.minMember) || !has(self.minSubGroup)", "minMember and minSubGroup exclude each other"),
            _rule(
                "!has(self.subGroups) || self.subGroups.all(g, !has(g.parent) ||"
                " self.subGroups.exists(p, p.name == g.parent && p.name != g.name))",
                "a parent does not exist",
            ),
            _rule(
                "!has(self.subGroups) || self.subGroups.all(g, !has(g.minMember) ||"
                " !self.subGroups.exists(c, has(c.parent) && c.parent == g.name))",
                "a sub-group with children has minSubGroup, not minMember",
            ),
        ]
    reason = _object(reason=TEXT, message=TEXT, details=FREE)
    condition = _object(
        type=TEXT,
        nodePool=TEXT,
        status=TEXT,
        reason=TEXT,
        message=TEXT,
        transitionID=TEXT,
        lastTransitionTime={"type": "string", "format": "date-time"},
        reasons={"type": "array", "items": reason},
    )
    status = _object(schedulingConditions={"type": "array", "items": condition}, resourcesStatus=FREE)
    return _crd("scheduling.run.ai", "v2alpha2", "PodGroup", _object(spec=spec, status=status))


def kai_queues() -> Object:
    """KAI's Queue."""
    spec = _object(displayName=TEXT, parentQueue=TEXT, priority={"type": "integer"}, resources=FREE)
    return _crd("scheduling.run.ai", "v2", "Queue", _object(spec=spec, status=FREE), namespaced=False)


def kai_topologies() -> Object:
    """KAI's Topology: levels that never change, each once, host names only as the last."""
    label = {"type": "string", "minLength": 1, "maxLength": 316}
    level = {**_object(nodeLabel=label), "required": ["nodeLabel"]}
    levels = {"type": "array", "minItems": 1, "maxItems": 16, "items": level, "x-kubernetes-list-type": "atomic"}
    levels["x-kubernetes-validations"] = [
        _rule("self == oldSelf", "levels are immutable"),
        _rule("self.all(a, self.exists_one(b, b.nodeLabel == a.nodeLabel))", "a level is there twice"),
        _rule(
            "self.filter(a, a.nodeLabel == 'kubernetes.io/hostname').size() == 0"
            " || self[size(self) - 1].nodeLabel == 'kubernetes.io/hostname'",
            "kubernetes.io/hostname is not the last level",
        ),
    ]
    spec = {**_object(levels=levels), "required": ["levels"]}
    schema = _object(spec=spec, status=FREE)
    return _crd("kai.scheduler", "v1alpha1", "Topology", schema, namespaced=False, plural="topologies")


def volcano_podgroups(*, subgroups: bool = True) -> Object:
    """Volcano's PodGroup, of 1.14 or (without `subgroups`) older. Spec and status are written as one."""
    selector = _object(matchLabels={"type": "object", "additionalProperties": TEXT}, matchExpressions=FREE)
    selector["properties"]["matchExpressions"] = {"type": "array", "items": FREE}
    policy = _object(
        name=TEXT,
        labelSelector=selector,
        matchLabelKeys={"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
        subGroupSize={**COUNT, "minimum": 1, "default": 1},
        minSubGroups={**COUNT, "default": 0},
        networkTopology=FREE,
    )
    spec = _object(
        minMember=COUNT,
        minResources=FREE,
        minTaskMember={"type": "object", "additionalProperties": COUNT},
        priorityClassName=TEXT,
        queue={"type": "string", "default": "default"},
        networkTopology=FREE,
    )
    if subgroups:
        spec["properties"]["subGroupPolicy"] = {"type": "array", "items": policy}
    condition = _object(
        type=TEXT,
        status=TEXT,
        reason=TEXT,
        message=TEXT,
        transitionID=TEXT,
        lastTransitionTime={"type": "string", "format": "date-time"},
    )
    status = _object(
        phase=TEXT, running=COUNT, succeeded=COUNT, failed=COUNT, conditions={"type": "array", "items": condition}
    )
    crd = _crd("scheduling.volcano.sh", "v1beta1", "PodGroup", _object(spec=spec, status=status))
    crd["spec"]["versions"][0]["subresources"] = {}
    return crd


def volcano_queues() -> Object:
    """Volcano's Queue."""
    spec = _object(weight={"type": "integer", "format": "int32"}, capability=FREE, parent=TEXT)
    status = _object(state=TEXT, allocated=FREE)
    return _crd("scheduling.volcano.sh", "v1beta1", "Queue", _object(spec=spec, status=status), namespaced=False)


def _object(**properties: Object) -> Object:
    return {"type": "object", "properties": properties}


def _rule(rule: str, message: str) -> Object:
    return {"rule": rule, "message": message}


def _crd(group: str, version: str, kind: str, schema: Object, *, namespaced: bool = True, plural: str = "") -> Object:
    plural = plural or f"{kind.lower()}s"
    schema["properties"] |= {"apiVersion": TEXT, "kind": TEXT, "metadata": {"type": "object"}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced" if namespaced else "Cluster",
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                }
            ],
        },
    }
