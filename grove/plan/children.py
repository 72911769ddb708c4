"""The objects a PodCliqueSet and its scaling groups should have, as wire objects.

Pods are built in `pods`, PodGangs in `gangs`.
"""

from typing import Any

from grove.api import labels, names
from grove.api.labels import Component, Env
from grove.api.podclique import AutoScalingConfig
from grove.api.podcliquescalinggroup import PodCliqueScalingGroup
from grove.api.podcliqueset import PodCliqueScalingGroupConfig, PodCliqueTemplateSpec
from grove.plan.startup import Place, starts_after
from grove.plan.template import Template, min_available, owner_reference, template_pods

_CPU = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}
_DEFAULT_METRICS: list[dict[str, Any]] = [{"type": "Resource", "resource": _CPU}]


def managed_labels(set_name: str, component: str, name: str | None = None) -> dict[str, str]:
    """Labels of every object the operator makes; `name` is left out on PodGangs."""
    result = {labels.MANAGED_BY: labels.MANAGED_BY_GROVE, labels.PART_OF: set_name, labels.COMPONENT: component}
    if name is not None:
        result[labels.NAME] = name
    return result


def headless_service(template: Template, replica: int) -> dict[str, Any]:
    """The headless Service that gives the pods of one set replica their DNS names."""
    name = names.headless_service_name(template.name, replica)
    config = template.pcs.spec.template.headless_service_config
    index = {labels.PODCLIQUESET_REPLICA_INDEX: str(replica)}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(
            template,
            name,
            managed_labels(template.name, Component.HEADLESS_SERVICE.value, name) | index,
            _owned_by_set(template),
        ),
        "spec": {
            "clusterIP": "None",
            "selector": {labels.MANAGED_BY: labels.MANAGED_BY_GROVE, labels.PART_OF: template.name} | index,
            "publishNotReadyAddresses": config.publish_not_ready_addresses if config else True,
        },
    }


def standalone_podclique(template: Template, replica: int, clique: PodCliqueTemplateSpec) -> dict[str, Any]:
    """The PodClique of a clique that is in no scaling group."""
    name = names.podclique_name(template.name, replica, clique.name)
    tags = managed_labels(template.name, Component.PODCLIQUE.value, name) | {
        labels.PODCLIQUESET_REPLICA_INDEX: str(replica),
        labels.PODGANG: names.base_podgang_name(template.name, replica),
    }
    after = starts_after(template, replica, Place(clique.name))
    return _podclique(template, clique, name, tags, clique.spec.pod_spec, after, _owned_by_set(template))


def member_podclique(
    template: Template,
    group: str,
    scaling_group: PodCliqueScalingGroup,
    replica: int,
    index: int,
    clique: PodCliqueTemplateSpec,
) -> dict[str, Any]:
    """The PodClique of `clique` in replica `index` of a scaling group.

    Replicas below the group's minAvailable belong to the base gang, the others to a gang of their own.
    """
    config = template.groups[group]
    name = names.scaling_group_podclique_name(scaling_group.name, index, clique.name)
    base = names.base_podgang_name(template.name, replica)
    tags = managed_labels(template.name, Component.SCALING_GROUP_PODCLIQUE.value, name) | {
        labels.PODCLIQUESET_REPLICA_INDEX: str(replica),
        labels.SCALING_GROUP: scaling_group.name,
        labels.SCALING_GROUP_REPLICA_INDEX: str(index),
    }
    if index < config.min_available:
        tags[labels.PODGANG] = base
    else:
        tags[labels.PODGANG] = names.scaled_podgang_name(scaling_group.name, index, config.min_available)
        tags[labels.BASE_PODGANG] = base
    pod_spec = with_env(clique.spec.pod_spec, scaling_group_env(template_pods(template, group)))
    owner = owner_reference(labels.API_VERSION, "PodCliqueScalingGroup", scaling_group.name, scaling_group.uid)
    after = starts_after(template, replica, Place(clique.name, group, index))
    return _podclique(template, clique, name, tags, pod_spec, after, owner)


def scaling_group(template: Template, replica: int, config: PodCliqueScalingGroupConfig) -> dict[str, Any]:
    """The PodCliqueScalingGroup of one set replica. It takes no user labels; the template has none for it."""
    name = names.scaling_group_name(template.name, replica, config.name)
    tags = managed_labels(template.name, Component.SCALING_GROUP.value, name) | {
        labels.PODCLIQUESET_REPLICA_INDEX: str(replica)
    }
    return {
        "apiVersion": labels.API_VERSION,
        "kind": "PodCliqueScalingGroup",
        "metadata": _metadata(
            template,
            name,
            tags,
            _owned_by_set(template),
            {**config.annotations, labels.TEMPLATE_REPLICAS: str(config.replicas)},
        ),
        "spec": {
            "replicas": config.replicas,
            "minAvailable": config.min_available,
            "cliqueNames": list(config.clique_names),
        },
    }


def autoscalers(template: Template, replica: int) -> list[dict[str, Any]]:
    """HorizontalPodAutoscalers of one set replica: one per clique and group that has a scaling configuration."""
    result = []
    for clique in template.standalone:
        if clique.spec.auto_scaling_config is not None:
            target = names.podclique_name(template.name, replica, clique.name)
            result.append(_autoscaler(template, "PodClique", target, clique.spec.auto_scaling_config))
    for group in template.groups.values():
        if group.scale_config is not None:
            target = names.scaling_group_name(template.name, replica, group.name)
            result.append(_autoscaler(template, "PodCliqueScalingGroup", target, group.scale_config))
    return result


def scaling_group_env(pods: int) -> list[dict[str, Any]]:
    """Environment that members of a scaling group get through their PodClique's podSpec, in the documented order."""
    return [
        _field_env(Env.PCSG_NAME.value, labels.SCALING_GROUP),
        {"name": Env.PCSG_TEMPLATE_NUM_PODS.value, "value": str(pods)},
        _field_env(Env.PCSG_INDEX.value, labels.SCALING_GROUP_REPLICA_INDEX),
        _field_env(Env.PCSG_POD_INDEX.value, labels.SCALING_GROUP_POD_INDEX),
    ]


def with_env(pod_spec: dict[str, Any], env: list[dict[str, Any]]) -> dict[str, Any]:
    """A podSpec whose containers and init containers see `env` first, without the user's variables of the same name.

    First, because `$(VAR)` expands only variables that stand before. The given podSpec is not changed.
    """
    taken = {variable["name"] for variable in env}
    result = dict(pod_spec)
    for key in ("initContainers", "containers"):
        if result.get(key):
            result[key] = [
                {**c, "env": env + [v for v in c.get("env") or () if v.get("name") not in taken]} for c in result[key]
            ]
    return result


def _field_env(name: str, label: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{label}']"}}}


def _podclique(
    template: Template,
    clique: PodCliqueTemplateSpec,
    name: str,
    tags: dict[str, str],
    pod_spec: dict[str, Any],
    after: list[str],
    owner: list[dict[str, Any]],
) -> dict[str, Any]:
    annotations = {k: v for k, v in clique.annotations.items() if k != labels.TOPOLOGY_NAME}
    annotations[labels.TEMPLATE_REPLICAS] = str(clique.spec.replicas)
    spec: dict[str, Any] = {
        "roleName": clique.spec.role_name or clique.name,
        "podSpec": pod_spec,
        "replicas": clique.spec.replicas,
        "minAvailable": min_available(clique),
    }
    if after:
        spec["startsAfter"] = after
    if clique.spec.auto_scaling_config is not None:
        spec["autoScalingConfig"] = clique.spec.auto_scaling_config.to_wire()
    tags = {**clique.labels, **tags, labels.POD_TEMPLATE_HASH: template.pod_template_hashes[clique.name]}
    return {
        "apiVersion": labels.API_VERSION,
        "kind": "PodClique",
        "metadata": _metadata(template, name, tags, owner, annotations),
        "spec": spec,
    }


def _autoscaler(template: Template, kind: str, target: str, config: AutoScalingConfig) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "scaleTargetRef": {"apiVersion": labels.API_VERSION, "kind": kind, "name": target},
        "maxReplicas": config.max_replicas,
    }
    if config.min_replicas is not None:
        spec["minReplicas"] = config.min_replicas
    # Kubernetes' default is written out, so that metrics which the template has no more go from a live autoscaler.
    spec["metrics"] = list(config.metrics) or _DEFAULT_METRICS
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": _metadata(
            template, target, managed_labels(template.name, Component.HPA.value, target), _owned_by_set(template)
        ),
        "spec": spec,
    }


def _owned_by_set(template: Template) -> list[dict[str, Any]]:
    return owner_reference(labels.API_VERSION, "PodCliqueSet", template.name, template.uid)


def _metadata(
    template: Template,
    name: str,
    tags: dict[str, str],
    owner: list[dict[str, Any]],
    annotations: dict[str, str] | None = None,
) -> dict[str, Any]:
    result: dict[str, Any] = {
        "name": name,
        "namespace": template.namespace,
        "labels": tags,
        "ownerReferences": owner,
    }
    if annotations:
        result["annotations"] = annotations
    return result
