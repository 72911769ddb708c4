"""The benchmark's own arithmetic: what is counted from metrics, and how numbers meet their budgets."""

import os
from collections import Counter
from dataclasses import replace

import pytest

from tests.bench.budgets import budget
from tests.bench.report import Value, measures, summarise, to_json, to_text
from tests.bench.run import Phase, Run
from tests.bench.usage import (
    Memory,
    Reading,
    Usage,
    cpu_seconds,
    difference,
    machine_seconds,
    memory,
    operator_writes,
    server_writes,
)

OPERATOR_METRICS = """\
# TYPE rest_client_requests_total counter
rest_client_requests_total{code="201",resource="pods",verb="create"} 5.0
rest_client_requests_total{code="200",resource="pods",verb="patch"} 3.0
rest_client_requests_total{code="409",resource="pods",verb="create"} 2.0
rest_client_requests_total{code="0",resource="services",verb="create"} 1.0
rest_client_requests_total{code="200",resource="pods",verb="list"} 7.0
rest_client_requests_created{code="201",resource="pods",verb="create"} 1.7e+09
"""
SERVER_METRICS = """\
apiserver_request_total{code="201",component="apiserver",dry_run="",group="grove.io",resource="podcliques",scope="resource",subresource="",verb="POST",version="v1alpha1"} 4
apiserver_request_total{code="200",component="apiserver",dry_run="",group="grove.io",resource="podcliques",scope="resource",subresource="status",verb="PATCH",version="v1alpha1"} 6
apiserver_request_total{code="409",component="apiserver",dry_run="",group="grove.io",resource="podcliques",scope="resource",subresource="",verb="POST",version="v1alpha1"} 9
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="services",scope="cluster",subresource="",verb="LIST",version="v1"} 8
apiserver_request_total{code="201",component="apiserver",dry_run="",group="",resource="services",scope="resource",subresource="",verb="POST",version="v1"} 1
"""  # noqa: E501, a line is a sample


def usage(cpu: float, writes: dict[str, int] | None = None) -> Usage:
    return Usage(10.0, {"operator": cpu, "etcd": 1.0}, 0.5, writes or {}, 0, Memory(70.0, 80.0))


def run(scenario: str = "100x2", ready: float = 10.0, cpu: float = 1.0, touched: int = 0) -> Run:
    deploy = Phase("deploy", {"pods created": 4.0, "Ready": ready}, usage(cpu, {"create pods": 200, "patch pods": 300}))
    touch = Phase("touch", {}, usage(0.0, {"patch pods": touched} if touched else {}))
    delete = Phase("delete", {"pods gone": 2.0}, replace(usage(0.1), memory=Memory(60.0, 90.0)))
    return Run(scenario, 200, 100, Memory(50.0, 50.0), 0.8, [deploy, touch, delete], {"services": (100, 100)})


def test_operator_writes_leave_out_reads_and_tell_refusals_apart() -> None:
    assert operator_writes(OPERATOR_METRICS) == (Counter({("create", "pods"): 5, ("patch", "pods"): 3}), 3)


def test_server_writes_are_those_accepted_by_resource() -> None:
    assert server_writes(SERVER_METRICS) == {"podcliques.grove.io": 10, "services": 1}


def test_difference_of_readings() -> None:
    """The machine was busy for 9 s, 6 of which were ours."""
    writes = Counter({("create", "pods"): 3})
    first = Reading(100.0, {"operator": 1.0, "etcd": 2.0}, 50.0, writes, 1, Memory(10.0, 20.0))
    later = writes + Counter({("create", "pods"): 4, ("patch", "pods"): 1})
    second = Reading(110.0, {"operator": 3.0, "etcd": 6.0}, 59.0, later, 1, Memory(12.0, 25.0))
    assert difference(first, second) == Usage(
        wall=10.0,
        cpu={"operator": 2.0, "etcd": 4.0},
        others=3.0,
        writes={"create pods": 4, "patch pods": 1},
        refused=0,
        memory=Memory(12.0, 25.0),
    )


def test_measures_of_a_run() -> None:
    found = measures(run())
    assert found["deploy: CPU per pod", "ms"] == 5.0  # 1 s for 200 pods
    assert found["deploy: writes per replica", ""] == 5.0  # 500 writes for 100 replicas


def test_times_are_shares_of_those_of_a_bare_loop() -> None:
    found = measures(replace(run(), bare={"deploy: Ready": 8.0, "delete: pods gone": 2.0, "deploy: ungated": 3.0}))
    shares = {measure: value for (measure, _), value in found.items() if "bare" in measure}
    assert shares == {
        "deploy: Ready, share of a bare loop's": 1.25,  # 10 s of 8 s
        "delete: pods gone, share of a bare loop's": 1.0,
    }
    assert found["deploy: writes per pod", ""] == 2.5
    assert found["deploy: machine taken by others", "%"] == round(100 * 0.5 / (10 * (os.cpu_count() or 1)))
    assert found["memory: peak", "MB"] == 90.0
    assert found["delete: pods gone", "s"] == 2.0


def value(runs: list[Run], measure: str) -> Value:
    """The value of a measure over the runs, which are all of one scenario."""
    (values,) = summarise(runs).values()
    return next(value for value in values if value.measure == measure)


def test_medians_are_judged_and_minimums_shown() -> None:
    """0.4 of the 31 s that the Go operator needs until 200 pods are Ready is 12.4 s."""
    ready = value([run("100x2 plain", ready=seconds) for seconds in (20.0, 12.0, 12.4)], "deploy: Ready")
    assert (ready.median, ready.minimum, ready.within) == (12.4, 12.0, True)
    assert ready.limit == pytest.approx(12.4)
    assert value([run("100x2 plain", ready=12.5)], "deploy: Ready").within is False


def test_a_single_write_on_a_touch_is_too_many() -> None:
    touch = value([run(touched=1)], "touch: writes")
    assert (touch.median, touch.limit, touch.within) == (1, 0, False)


def test_cost_per_pod_is_compared_with_the_small_scenario() -> None:
    name = "deploy: CPU per pod, relative to 100x2"
    found = {value.measure: value for value in summarise([run(), run("5000", cpu=1.2)])["5000"]}
    assert (found[name].median, found[name].within) == (1.2, False)
    assert name not in {value.measure for value in summarise([run("5000")])["5000"]}, "nothing to compare with"


def test_shares_of_the_reference() -> None:
    assert budget("500x2 plain", "deploy: pods created") == pytest.approx(15.2)
    assert budget("500x2 plain", "deploy: CPU") == pytest.approx(8.5)
    assert budget("500x2 plain", "memory: peak") == 124
    assert budget("5000", "deploy: Ready") is None
    assert budget("5000", "idle: writes") == 0


def test_the_report_shows_every_measure_and_who_used_the_cpu() -> None:
    runs = [run("100x2 plain", ready=20.0), run("5000")]
    text = to_text(runs, summarise(runs))
    assert "20  ≤ 12.4 OVER" in text
    assert "services 100/100" in text
    assert all(f"{title}: CPU seconds" in text for title in ("100x2 plain", "5000"))
    report = to_json(runs, summarise(runs), "abc")
    assert report["commit"] == "abc"
    assert report["runs"][1]["phases"][0]["usage"]["writes"] == {"create pods": 200, "patch pods": 300}


def test_reading_this_process() -> None:
    before = cpu_seconds(os.getpid()), machine_seconds()
    while cpu_seconds(os.getpid()) < before[0] + 0.1:
        pass
    assert machine_seconds() > before[1]
    now = memory(os.getpid())
    assert 5 < now.now <= now.peak


def test_admission_is_measured_in_percentiles() -> None:
    """Of 1 to 999 ms in steps of 1 the 50th percentile is 500, the 99th is 990."""
    asked = replace(run(), admission={"rules": [float(number) for number in range(1, 1000)]})
    found = {name: value for (name, _), value in measures(asked).items()}
    assert (found["admission: rules, p50"], found["admission: rules, p99"]) == (500.0, 990.0)
    assert budget("500x2 asked", "admission: rules, p99") == 50.0
    assert budget("500x2 asked", "admission: rules and pods, p99") is None
