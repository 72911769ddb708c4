"""What has happened to the objects of a namespace, followed by a watch from a moment on.

The API server itself tells the past of only a minute or so, less than a test may take on a busy machine.
"""

import http.client
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grove.cluster.client import ApiStatus, Client

_SECONDS = 20
"""How long one watch lasts. It ends with a bookmark, so that the next one asks for nothing that is long past."""


@dataclass(frozen=True)
class Change:
    """One event of a watch: what became of an object, and at which resourceVersion."""

    kind: str
    type: str
    """ADDED, MODIFIED or DELETED"""
    object: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.object["metadata"]["name"])

    @property
    def version(self) -> int:
        return int(self.object["metadata"]["resourceVersion"])


class WatchingClient(Client):
    """A client that can watch."""

    def watch(self, path: str) -> Iterator[dict[str, Any]]:
        """The events of a watch, until it ends or the caller stops."""
        connection = self._connection(10.0 + _SECONDS)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            if response.status != 200:
                raise ApiStatus(response.status, response.reason, response.read().decode())
            for line in response:
                yield json.loads(line)
        finally:
            connection.close()


class History:
    """Every change of the objects below `path` after the resourceVersion `since`, collected in the background."""

    def __init__(self, kubeconfig: Path, kind: str, path: str, since: int) -> None:
        self._client = WatchingClient(kubeconfig)
        self._kind, self._path = kind, path
        self._changes: list[Change] = []
        self._gap = ""
        self._closed = threading.Event()
        threading.Thread(target=self._follow, args=[since], daemon=True).start()

    def changes(self) -> list[Change]:
        """What has been told so far, in the order in which it happened."""
        assert not self._gap, f"something was missed: {self._gap}"
        return list(self._changes)

    def close(self) -> None:
        """Follow it no more."""
        self._closed.set()

    def _follow(self, version: int) -> None:
        while not self._closed.is_set() and not self._gap:
            query = f"watch=true&allowWatchBookmarks=true&timeoutSeconds={_SECONDS}&resourceVersion={version}"
            try:
                for event in self._client.watch(f"{self._path}?{query}"):
                    if event["type"] == "ERROR":
                        self._gap = str(event["object"])
                        return
                    version = int(event["object"]["metadata"]["resourceVersion"])
                    if event["type"] != "BOOKMARK":
                        self._changes.append(Change(self._kind, event["type"], event["object"]))
            except (OSError, ApiStatus, http.client.HTTPException, ValueError):
                time.sleep(0.1)  # the API server is away or busy, or broke off within a line
