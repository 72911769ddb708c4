"""The resource types the operator reads and writes."""

from typing import Final

from grove.runtime.resources import ResourceType

PODCLIQUESET: Final = ResourceType("grove.io", "v1alpha1", "podcliquesets", "PodCliqueSet")
PODCLIQUESCALINGGROUP: Final = ResourceType("grove.io", "v1alpha1", "podcliquescalinggroups", "PodCliqueScalingGroup")
PODCLIQUE: Final = ResourceType("grove.io", "v1alpha1", "podcliques", "PodClique")
PODGANG: Final = ResourceType("scheduler.grove.io", "v1alpha1", "podgangs", "PodGang")
POD: Final = ResourceType("", "v1", "pods", "Pod")
SERVICE: Final = ResourceType("", "v1", "services", "Service")
AUTOSCALER: Final = ResourceType("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler")
CHILDREN: Final = (PODCLIQUESCALINGGROUP, PODCLIQUE, PODGANG, POD, SERVICE, AUTOSCALER)
"""What is made of a PodCliqueSet, objects of schedulers aside."""
CLUSTERTOPOLOGYBINDING: Final = ResourceType(
    "grove.io", "v1alpha1", "clustertopologybindings", "ClusterTopologyBinding", namespaced=False
)
