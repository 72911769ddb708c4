"""Trouble for the operator: a network that breaks, stalls and drags. And a look at who writes when all should rest."""

import asyncio
import os
import random
import re
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import yaml

from tests.cluster.harness import Harness

T = TypeVar("T")

_REQUEST = re.compile(r"^apiserver_request_total\{(.*)\} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_WRITES = {"POST", "PUT", "PATCH", "APPLY", "DELETE"}
_OURS = {"podcliquesets", "podcliques", "podcliquescalinggroups", "podgangs", "services", "pods"}
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER with 0 s: closing sends RST and drops what is under way


def dice() -> random.Random:
    """A random source with a new seed, which it prints; the variable GROVE_TEST_SEED repeats one."""
    seed = int(os.environ.get("GROVE_TEST_SEED") or random.randrange(2**32))
    print(f"\nGROVE_TEST_SEED={seed}")
    return random.Random(seed)


def writes(cluster: Harness) -> Counter[str]:
    """How often the API server was asked to change something of the kinds the operator writes, refusals included.

    By method and resource, from the API server's metrics. Its counters start anew when it does. Left out is what only
    others do: to give a pod its status, and to empty a namespace that is being deleted.
    """
    found: Counter[str] = Counter()
    for labels, value in _REQUEST.findall(cluster.api("GET", "/metrics")):
        request = dict(_LABEL.findall(labels))
        verb, resource, subresource = request["verb"], request["resource"], request["subresource"]
        foreign = (resource, subresource) == ("pods", "status") or (verb, request["scope"]) == ("DELETE", "namespace")
        if verb in _WRITES and resource in _OURS and not foreign:
            found[f"{verb} {'/'.join(filter(None, (resource, subresource)))}"] += int(float(value))
    return found


def assert_rest(cluster: Harness, seconds: float) -> None:
    """Wait until for so many seconds nobody has written anything."""
    deadline = time.monotonic() + 60.0 + seconds
    last, since, late = writes(cluster), time.monotonic(), Counter[str]()
    while time.monotonic() - since < seconds:
        assert time.monotonic() < deadline, f"there is always something that somebody writes, the last was {late}"
        time.sleep(1.0)
        now = writes(cluster)
        if now != last:
            last, since, late = now, time.monotonic(), now - last


@dataclass(eq=False)
class _Connection:
    """A connection through the proxy: the operator's side and the API server's."""

    sides: tuple[asyncio.StreamWriter, asyncio.StreamWriter]
    open: asyncio.Event

    def close(self) -> None:
        for side in self.sides:
            side.close()

    def reset(self) -> None:
        for side in self.sides:
            if side.transport.is_closing():
                continue
            side.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            side.transport.abort()


class Proxy:
    """A TCP proxy before the API server whose connections can be reset, silenced and slowed down.

    `kubeconfig` leads through it. TLS passes untouched: the API server's certificate is valid for 127.0.0.1, on any
    port. `delay` is the longest time in seconds that a piece of a stream is held back; how long is random.
    """

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        address = urlsplit(config["clusters"][0]["cluster"]["server"])
        self.delay = 0.0
        self._target = (address.hostname or "", address.port or 443)
        self._connections: set[_Connection] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = self._call(asyncio.start_server(self._serve, "127.0.0.1", 0))
        port = self._server.sockets[0].getsockname()[1]
        config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{port}"
        self.kubeconfig = folder / "proxied.kubeconfig"
        self.kubeconfig.write_text(yaml.safe_dump(config))

    def reset(self, source: random.Random, share: float) -> int:
        """Reset about this share of the open connections; how many those were."""
        return self._call(self._reset(source, share))

    def silence(self) -> int:
        """Nothing passes any more over the connections that are open now, though they stay open; how many those are.

        The kernel still acknowledges what arrives, so that it looks to both sides as if the other had nothing to say.
        """
        return self._call(self._silence())

    def stop(self) -> None:
        """Close everything."""
        self._call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=30)

    async def _reset(self, source: random.Random, share: float) -> int:
        victims = [connection for connection in self._connections if source.random() < share]
        for connection in victims:
            connection.reset()
        return len(victims)

    async def _silence(self) -> int:
        for connection in self._connections:
            connection.open.clear()
        return len(self._connections)

    async def _stop(self) -> None:
        self._server.close()
        for connection in self._connections:
            connection.open.set()
            connection.reset()
        await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            server_reader, server_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        connection = _Connection((writer, server_writer), asyncio.Event())
        connection.open.set()
        self._connections.add(connection)
        try:
            await asyncio.gather(
                self._pass(reader, server_writer, connection), self._pass(server_reader, writer, connection)
            )
        finally:
            self._connections.discard(connection)
            connection.close()

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, connection: _Connection) -> None:
        with suppress(OSError):  # reset
            while data := await source.read(2**16):
                if self.delay:
                    await asyncio.sleep(random.uniform(0.0, self.delay))
                await connection.open.wait()
                sink.write(data)
                await sink.drain()
        connection.close()


@contextmanager
def resetting(proxy: Proxy, source: random.Random, share: float, pause: float) -> Iterator[Counter[str]]:
    """While the block runs, reset about this share of the connections every `pause` s at most; counts the resets."""
    done = Counter(resets=0)
    ended = threading.Event()
    own = random.Random(source.random())

    def work() -> None:
        while not ended.wait(own.uniform(0.0, pause)):
            done["resets"] += proxy.reset(own, share)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield done
    finally:
        ended.set()
        thread.join()
