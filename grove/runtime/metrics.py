"""The metrics of the runtime, under the names that dashboards for Kubernetes controllers expect."""

from functools import cache

import prometheus_client
from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest

REGISTRY = prometheus_client.REGISTRY
"""All metrics of the process: the default registry, since that is what an exposition endpoint serves."""

_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

REQUESTS = Counter(
    "rest_client_requests",
    "API requests by verb, resource and status code; code 0 is a request without an answer.",
    ("verb", "resource", "code"),
    registry=REGISTRY,
)
REQUEST_SECONDS = Histogram(
    "rest_client_request_duration_seconds",
    "Latency of API requests by verb, retries and waits included; watches are left out.",
    ("verb",),
    buckets=_SECONDS,
    registry=REGISTRY,
)
WATCH_EVENTS = Counter("watch_events", "Watch events by resource and type.", ("resource", "type"), registry=REGISTRY)
LISTS = Counter("informer_lists", "Complete lists by resource.", ("resource",), registry=REGISTRY)

QUEUE_DEPTH = Gauge("workqueue_depth", "Keys ready and waiting for a worker.", ("name",), registry=REGISTRY)
QUEUE_ADDS = Counter("workqueue_adds", "Keys added, coalesced ones left out.", ("name",), registry=REGISTRY)
QUEUE_RETRIES = Counter("workqueue_retries", "Passes that failed and will be repeated.", ("name",), registry=REGISTRY)
QUEUE_WAIT_SECONDS = Histogram(
    "workqueue_queue_duration_seconds",
    "How long a ready key waits for a worker.",
    ("name",),
    buckets=_SECONDS,
    registry=REGISTRY,
)
QUEUE_WORK_SECONDS = Histogram(
    "workqueue_work_duration_seconds", "How long one pass takes.", ("name",), buckets=_SECONDS, registry=REGISTRY
)
QUEUE_LONGEST_SECONDS = Gauge(
    "workqueue_longest_running_processor_seconds",
    "How long the oldest running pass has been running.",
    ("name",),
    registry=REGISTRY,
)

EVENTS = Counter(
    "event_recorder_events",
    "Kubernetes events by outcome: sent, repeated (a count was raised), limited, overflowed, failed.",
    ("outcome",),
    registry=REGISTRY,
)

EVENT_REASONS = Counter(
    "grove_events",
    "Kubernetes events recorded, repeated ones included, by type and reason.",
    ("type", "reason"),
    registry=REGISTRY,
)
LIMITER_SECONDS = Histogram(
    "rest_client_rate_limiter_duration_seconds",
    "How long requests waited for our own limit; the server's shows as rest_client_requests_total with code 429.",
    buckets=_SECONDS,
    registry=REGISTRY,
)

WEBHOOK_REQUESTS = Counter(
    "controller_runtime_webhook_requests",
    "Admission reviews by path and HTTP status.",
    ("webhook", "code"),
    registry=REGISTRY,
)
WEBHOOK_SECONDS = Histogram(
    "controller_runtime_webhook_latency_seconds",
    "How long an admission review takes, by path.",
    ("webhook",),
    buckets=_SECONDS,
    registry=REGISTRY,
)
DRY_RUNS = Counter(
    "grove_admission_dry_runs",
    "Objects tried out for admission by outcome: valid, invalid, refused (it may come to be allowed), unknown.",
    ("outcome",),
    registry=REGISTRY,
)

LEADER = Gauge(
    "leader_election_master_status",
    "Whether this process leads, by the name of the Lease.",
    ("name",),
    registry=REGISTRY,
)


@cache
def request_counter(verb: str, resource: str, code: int) -> Counter:
    """Return the child of REQUESTS for these labels; a look-up in prometheus_client costs ten times as much."""
    return REQUESTS.labels(verb, resource, str(code))


@cache
def request_timer(verb: str) -> Histogram:
    """Return the child of REQUEST_SECONDS for this verb."""
    return REQUEST_SECONDS.labels(verb)


@cache
def watch_counter(resource: str, event_type: str) -> Counter:
    """Return the child of WATCH_EVENTS for these labels."""
    return WATCH_EVENTS.labels(resource, event_type)


def exposition() -> bytes:
    """Return all metrics of the process in Prometheus' text format."""
    return generate_latest(REGISTRY)
