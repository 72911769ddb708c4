"""Scheduler back ends: what each scheduler needs so that it places a gang's pods all together or not at all.

A set uses the back end whose profile is called like the schedulerName of its pods. Profiles are enabled in the
operator's configuration:

    scheduler:
      defaultProfileName: default-scheduler     # for pods without schedulerName
      profiles:
      - name: default-scheduler                 # always enabled
      - name: my-scheduler
        config: {queue: research}               # handed to the back end as it is

To write a back end, derive from `Backend` and override what your scheduler needs; every method has a default that
does nothing. Then name the class as an entry point of your own package, under the profile's name:

    [project.entry-points."grove.schedulers"]
    my-scheduler = "my_package:MyScheduler"

When which method is called:

| method | when | for |
|---|---|---|
| `watches` | at start | kinds to keep in the cache; one that is not served is waited for |
| `topologies` | in every pass over a ClusterTopologyBinding | the object that tells of the cluster's levels |
| `missing` | in every pass | a profile whose CRDs are not there: pods wait, the sets say why |
| `validate` | on admission, and once per generation of a set | field errors, as from `grove.admission` |
| `prepare_pod` | when a pod is made | annotations, labels, schedulingGroup, resource claims |
| `decide` | in every pass over a gang whose PodGang exists | the scheduler's objects; pods that stay gated |
| `placement` | in every pass over a gang | status of the PodGang |

Rules: methods are pure and quick (no I/O, no clock, no memory of earlier calls); the same input gives the same
writes, and none when nothing is to change; objects carry `gang_labels`; names are derived, never random; what
others wrote on an object stays (`grove.plan.update.ensure` sees to that). A back end that raises fails the pass,
which is logged and repeated, so raise nothing for what is normal: deleted parents, pods that are not there yet.
"""

from grove.plan.binding import TopologyKind
from grove.schedulers.backend import (
    Backend,
    Cluster,
    Decision,
    GangView,
    Object,
    Slot,
    UnknownBackend,
    Unplaced,
    Watch,
)
from grove.schedulers.objects import gang_labels, gang_metadata
from grove.schedulers.registry import ENTRY_POINTS, SchedulerError, Schedulers, enable, installed

__all__ = [
    "ENTRY_POINTS", "Backend", "Cluster", "Decision", "GangView", "Object", "SchedulerError", "Schedulers", "Slot",
    "TopologyKind", "UnknownBackend", "Unplaced", "Watch", "enable", "gang_labels", "gang_metadata", "installed",
]  # fmt: skip
