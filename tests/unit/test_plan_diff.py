"""Comparing and patching: what counts as a difference, and patches that close it and nothing else."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grove.plan.conditions import Want, is_true, merged
from grove.plan.diff import covers, map_patch, replacement
from grove.plan.update import differs
from tests.fake_api.objects import merge_patch

SCALARS = st.one_of(st.booleans(), st.integers(-3, 3), st.sampled_from(["", "a", "b"]))
JSON = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abcd"), inner, max_size=3)),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.sampled_from("abcd"), JSON, max_size=4)
TEXTS = st.dictionaries(st.sampled_from(["k1", "k2", "k3", "k4"]), st.sampled_from(["x", "y"]), max_size=4)


# covers


@pytest.mark.parametrize(
    ("live", "desired"),
    [
        ({"a": 1, "b": 2}, {"a": 1}),
        ({"a": {"x": 1, "default": True}}, {"a": {"x": 1}}),
        ([{"name": "c", "imagePullPolicy": "Always"}], [{"name": "c"}]),
        ("1", "1000m"),
        ("500m", "0.5"),
        ("1Gi", "1024Mi"),
        ("2", 2),
        (2, "2000m"),
        ("1e3", "1k"),
        ("100M", "0.1G"),
        ({}, {}),
        ({"a": None}, {"a": None}),
    ],
)
def test_covers(live: Any, desired: Any) -> None:
    assert covers(live, desired)


@pytest.mark.parametrize(
    ("live", "desired"),
    [
        ({}, {"a": 1}),
        ({"a": 2}, {"a": 1}),
        ({"a": [1, 2]}, {"a": [1]}),
        ({"a": [2, 1]}, {"a": [1, 2]}),
        (None, {"a": 1}),
        (None, []),
        ([], {}),
        ("1", {"a": 1}),
        ("1Gi", "1G"),
        ("1", "1m"),
        ("a", "b"),
        ("", "0"),
        ("nan", "nan2"),
        ("1x", "1y"),
        (None, 0),
        (False, "False"),
    ],
)
def test_does_not_cover(live: Any, desired: Any) -> None:
    assert not covers(live, desired)


@pytest.mark.parametrize("words", [("1_0", "10"), ("inf", "Infinity"), ("\uff11", "1")])
def test_only_quantities_are_compared_by_value(words: tuple[str, str]) -> None:
    assert not covers(*words)


def test_a_number_beyond_all_quantities_is_a_word() -> None:
    assert covers("1e999999999", "1e999999999")
    assert not covers("1e999999999", "2")
    assert not covers("1" * 40, "1" * 39 + "2")


@given(JSON)
def test_everything_covers_itself(value: Any) -> None:
    assert covers(value, value)


@given(OBJECTS, OBJECTS)
def test_a_patched_object_covers_the_patch(live: Any, desired: Any) -> None:
    assert covers(merge_patch(live, desired), desired)


# Merge patches (RFC 7386)


@given(OBJECTS, OBJECTS)
def test_a_replacement_makes_the_live_value_the_desired_one(live: dict[str, Any], desired: dict[str, Any]) -> None:
    assert merge_patch(live, replacement(live, desired)) == desired


@given(JSON, JSON)
def test_a_replacement_inside_of_an_object(live: Any, desired: Any) -> None:
    assert merge_patch({"key": live}, {"key": replacement(live, desired)}) == {"key": desired}


@given(OBJECTS)
def test_a_replacement_of_what_is_right_is_empty(value: dict[str, Any]) -> None:
    assert replacement(value, value) == {}


def test_a_replacement_says_no_more_than_needed() -> None:
    live = {"keep": {"x": 1}, "change": {"x": 1, "gone": 2}, "drop": 1}
    assert replacement(live, {"keep": {"x": 1}, "change": {"x": 3}, "new": []}) == {
        "change": {"x": 3, "gone": None},
        "drop": None,
        "new": [],
    }


@given(TEXTS, TEXTS, st.sets(st.sampled_from(["k1", "k2", "k3", "k4"])))
def test_a_map_patch_sets_ours_and_leaves_others(live: Any, desired: Any, owned: set[str]) -> None:
    result = merge_patch(live, map_patch(live, desired, owned))
    foreign = {key: value for key, value in live.items() if key not in desired and key not in owned}
    assert result == {**foreign, **desired}


@given(TEXTS, TEXTS, st.sets(st.sampled_from(["k1", "k2", "k3", "k4"])))
def test_a_map_patch_is_empty_once_applied(live: Any, desired: Any, owned: set[str]) -> None:
    result = merge_patch(live, map_patch(live, desired, owned))
    assert map_patch(result, desired, owned) == {}


# Status: differences


@pytest.mark.parametrize(
    ("live", "desired", "different"),
    [
        ({}, {"replicas": 0, "lastErrors": [], "conditions": []}, False),
        ({"replicas": 1}, {"replicas": 1}, False),
        ({"replicas": 1, "foreign": 2}, {"replicas": 1}, False),
        ({}, {"replicas": 1}, True),
        ({"replicas": 1}, {"replicas": 0}, True),
        ({"lastErrors": [{"code": "x"}]}, {"lastErrors": []}, True),
        ({"replicas": 0}, {"replicas": 0}, False),
        ({"phase": "Pending"}, {"phase": "Running"}, True),
    ],
)
def test_differs(live: Any, desired: Any, different: bool) -> None:
    assert differs(live, desired) is different


# Conditions


BEFORE, NOW = "2026-09-01T00:00:00Z", "2026-09-01T01:00:00Z"


def condition(kind: str, status: str, reason: str = "R", message: str = "m", since: str = BEFORE) -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since}


def test_a_new_condition_begins_now() -> None:
    assert merged([], [Want("Ready", False, "R", "m")], NOW) == [condition("Ready", "False", since=NOW)]


@pytest.mark.parametrize(("status", "text"), [(True, "True"), (False, "False"), (None, "Unknown")])
def test_status_words(status: bool | None, text: str) -> None:
    assert merged([], [Want("Ready", status, "R", "m")], NOW)[0]["status"] == text


def test_the_same_condition_stays_the_same_object() -> None:
    live = [condition("Ready", "True")]
    assert merged(live, [Want("Ready", True, "R", "m")], NOW) == live


def test_another_reason_or_message_keeps_the_time() -> None:
    live = [condition("Ready", "True")]
    assert merged(live, [Want("Ready", True, "Other", "m")], NOW) == [condition("Ready", "True", "Other")]
    assert merged(live, [Want("Ready", True, "R", "new")], NOW) == [condition("Ready", "True", message="new")]


def test_another_status_moves_the_time() -> None:
    live = [condition("Ready", "True")]
    assert merged(live, [Want("Ready", False, "R", "m")], NOW) == [condition("Ready", "False", since=NOW)]
    assert merged(live, [Want("Ready", None, "R", "m")], NOW) == [condition("Ready", "Unknown", since=NOW)]


def test_conditions_of_others_stay_in_their_place_with_all_their_fields() -> None:
    foreign = {**condition("Foreign", "True"), "observedGeneration": 7}
    live = [foreign, condition("Ready", "True"), condition("DisruptionTarget", "False")]
    result = merged(live, [Want("Scheduled", True, "R", "m"), Want("Ready", False, "R", "m")], NOW)
    assert result == [
        foreign,
        condition("Ready", "False", since=NOW),
        condition("DisruptionTarget", "False"),
        condition("Scheduled", "True", since=NOW),
    ]


def test_is_true() -> None:
    conditions = [condition("Ready", "False"), condition("Scheduled", "True"), condition("Odd", "Unknown")]
    assert [is_true(conditions, kind) for kind in ("Ready", "Scheduled", "Odd", "Missing")] == [
        False,
        True,
        False,
        False,
    ]
