"""What may be given away: nothing that somebody put into an object in confidence."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grove.inspect.redact import HIDDEN, masked, redacted
from tests.sets import pod_specs

SECRET = "verysecret"
POD = {
    "kind": "Pod",
    "metadata": {
        "name": "p",
        "managedFields": [{"manager": SECRET}],
        "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": f'{{"env": "{SECRET}"}}',
            "example.com/config": f' {{"password": "{SECRET}"}}',
            "example.com/api-token": SECRET,
            "grove.io/startup": "released",
        },
    },
    "spec": {
        "containers": [
            {
                "name": "main",
                "command": ["serve", f"--api-key={SECRET}", "--hf-token", SECRET, "--port", "80"],
                "args": [f"curl https://me:{SECRET}@example.com -H 'Authorization: Bearer {SECRET}'"],
                "env": [
                    {"name": "HF_TOKEN", "value": SECRET},
                    {"name": "PLAIN", "value": SECRET},
                    {"name": "GROVE_PCS_NAME", "value": "web"},
                    {"name": "REF", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                ],
                "readinessProbe": {"httpGet": {"path": "/", "httpHeaders": [{"name": "X", "value": SECRET}]}},
            }
        ],
    },
}


def test_a_pod() -> None:
    seen = redacted(POD)
    assert SECRET not in json.dumps(seen)
    (container,) = seen["spec"]["containers"]
    assert container["command"] == ["serve", f"--api-key={HIDDEN}", "--hf-token", HIDDEN, "--port", "80"]
    assert container["env"][2:] == POD["spec"]["containers"][0]["env"][2:]  # type: ignore[index]
    assert seen["metadata"]["annotations"]["grove.io/startup"] == "released"
    assert "managedFields" in POD["metadata"], "the original is left alone"


def test_of_a_secret_nothing_is_left_but_its_name() -> None:
    obj = {"kind": "Secret", "metadata": {"name": "s", "annotations": {"a": SECRET}}, "data": {"k": SECRET}}
    assert redacted(obj) == {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}


@pytest.mark.parametrize(
    "line",
    [
        f"using token={SECRET}",
        f'{{"password": "{SECRET}", "x": 1}}',
        f"Authorization: Bearer {SECRET}",
        f"GET https://user:{SECRET}@example.com/x",
        f"export AWS_SECRET_ACCESS_KEY={SECRET}",
        f'password="correct horse {SECRET}" x=1',
        f"password='it ends nowhere {SECRET}",
        f'{{"msg": "sent {{\\"api_key\\": \\"correct horse {SECRET}\\"}}"}}',
        f"api_key=begin\\{SECRET}",
        f"authorization: Basic {SECRET}",
        f"trying eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrdWJlIn0.{SECRET}",
    ],
)
def test_lines_of_logs(line: str) -> None:
    assert SECRET not in masked(line)
    assert HIDDEN in masked(line)


def test_lines_that_stay() -> None:
    line = "2026-11-30 INFO PodCliqueSet default/llm: Created 2 PodGangs: llm-0, llm-1"
    assert masked(line) == line


@pytest.mark.parametrize("unit", ["x", "token", "token:", 'token="', "://", "eyJ", "-eyJ", "\\", "token  "])
def test_lines_of_any_length(unit: str) -> None:
    """A rule that looks far ahead from every place would take days for it."""
    assert masked(unit * (500_000 // len(unit)))


@given(pod_specs(), st.text(alphabet="xyz", min_size=12, max_size=12))
def test_values_never_survive(spec: dict[str, object], value: str) -> None:
    containers: list[dict[str, object]] = spec["containers"]  # type: ignore[assignment]
    containers[0]["env"] = [{"name": "A", "value": value}]
    obj = {"spec": {"template": {"cliques": [{"spec": {"podSpec": spec}}]}}}
    assert value not in json.dumps(redacted(obj))
