"""How long admission takes while the operator is busy: asks its webhooks as the API server does, over one connection.

A process of its own, since the benchmark's loop is busy itself. Each round asks three times about a set of 3 KB: for
its defaults, for what is wrong with it when no pod has to be tried (an update), and when its pods are tried (a create).
"""

import http.client
import json
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from grove.webhooks.configurations import DEFAULT_PATH, VALIDATE_PATH
from tests.bench.scenarios import NAMESPACE

_PAUSE = 0.05

Latencies = dict[str, list[float]]
"""Milliseconds of each review, by what was asked: `defaults`, `rules`, `rules and pods`."""


@contextmanager
def asking(url: str) -> Iterator[Latencies]:
    """Ask while the block runs; what was measured is there after it."""
    found: Latencies = {}
    command = [sys.executable, "-m", "tests.bench.admission", url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield found
        output, _ = process.communicate("")
    found.update(json.loads(output))


def measure(url: str, over: threading.Event) -> Latencies:
    """Ask until it is over."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection(urlsplit(url).netloc, context=context, timeout=30)
    new = podcliqueset()
    reviews = {
        "defaults": (DEFAULT_PATH, review(new)),
        "rules": (VALIDATE_PATH, review({**new, "metadata": {**new["metadata"], "labels": {"a": "b"}}}, new)),
        "rules and pods": (VALIDATE_PATH, review(new)),
    }
    found: Latencies = {what: [] for what in reviews}
    while not over.wait(_PAUSE):
        for what, (path, body) in reviews.items():
            start = time.perf_counter()
            connection.request("POST", path, body, {"Content-Type": "application/json"})
            answer = json.loads(connection.getresponse().read())
            found[what].append(1000 * (time.perf_counter() - start))
            assert answer["response"]["allowed"], answer
    return found


def review(new: Any, old: Any = None) -> bytes:
    """The AdmissionReview of a create, or of an update of `old`."""
    kind = {"group": "grove.io", "version": "v1alpha1", "kind": "PodCliqueSet"}
    operation = "CREATE" if old is None else "UPDATE"
    request = {
        "uid": "u",
        "kind": kind,
        "operation": operation,
        "namespace": NAMESPACE,
        "object": new,
        "oldObject": old,
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


def podcliqueset() -> dict[str, Any]:
    """A set of 3 KB: router, prefill and decode, the latter two in a scaling group."""
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": "asked", "namespace": NAMESPACE},
        "spec": {
            "replicas": 1,
            "template": {
                "cliques": [_clique(name) for name in ("router", "prefill", "decode")],
                "podCliqueScalingGroups": [{"name": "engine", "cliqueNames": ["prefill", "decode"], "replicas": 2}],
            },
        },
    }


def _clique(name: str) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": f"registry.example.com/inference/{name}:1.2.3",
        "command": ["/usr/bin/serve", f"--role={name}", "--model=/models/llama", "--port=8000"],
        "env": [{"name": f"SETTING_{number}", "value": f"value of setting {number}"} for number in range(8)],
        "ports": [{"name": "http", "containerPort": 8000}],
        "resources": {"requests": {"cpu": "4", "memory": "16Gi"}, "limits": {"memory": "16Gi"}},
        "volumeMounts": [{"name": "models", "mountPath": "/models", "readOnly": True}],
    }
    volumes = [{"name": "models", "persistentVolumeClaim": {"claimName": "models"}}]
    return {"name": name, "spec": {"replicas": 2, "podSpec": {"containers": [container], "volumes": volumes}}}


def _main(url: str) -> None:
    over = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        over.set()

    threading.Thread(target=wait, daemon=True).start()
    json.dump(measure(url, over), sys.stdout)


if __name__ == "__main__":
    _main(sys.argv[1])
