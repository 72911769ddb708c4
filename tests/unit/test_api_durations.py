"""Durations are read as Kubernetes reads them."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grove.api.durations import PATTERN, parse_duration


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", timedelta(0)),
        ("4h", timedelta(hours=4)),
        ("4h0m0s", timedelta(hours=4)),
        ("1h30m", timedelta(minutes=90)),
        ("1.5h", timedelta(minutes=90)),
        (".5s", timedelta(milliseconds=500)),
        ("1.s", timedelta(seconds=1)),
        ("500ms", timedelta(milliseconds=500)),
        ("250us", timedelta(microseconds=250)),
        ("250µs", timedelta(microseconds=250)),
        ("250μs", timedelta(microseconds=250)),
        ("2000ns", timedelta(microseconds=2)),
        ("-15m", timedelta(minutes=-15)),
        ("+15m", timedelta(minutes=15)),
        ("-0", timedelta(0)),
        ("1m1h", timedelta(minutes=61)),
    ],
)
def test_durations(text: str, expected: timedelta) -> None:
    assert parse_duration(text) == expected
    assert re.search(PATTERN, text)


@pytest.mark.parametrize(
    "text", ["", "-", "5", "h", "1d", "1 h", "1h ", "--1h", "1h-1m", "1..5h", ".h", "\uff11h", "1H"]
)
def test_what_is_no_duration_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a duration: write e\.g\. 4h") as caught:
        parse_duration(text)
    assert repr(text) in str(caught.value)
    assert not re.search(PATTERN, text)


@given(st.integers(0, 9999), st.integers(0, 9999), st.integers(0, 9999), st.integers(0, 9999))
def test_parts_add_up(hours: int, minutes: int, seconds: int, milliseconds: int) -> None:
    expected = timedelta(hours=hours, minutes=minutes, seconds=seconds, milliseconds=milliseconds)
    assert parse_duration(f"{hours}h{minutes}m{seconds}s{milliseconds}ms") == expected
    assert parse_duration(f"-{hours}h{minutes}m{seconds}s{milliseconds}ms") == -expected
