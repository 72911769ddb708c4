"""Sockets: HTTP sessions to an API server that notice a dead peer, and ports to serve on."""

import socket
import ssl as ssl_module
from asyncio.sslproto import SSLProtocol
from collections.abc import Mapping

import aiohttp

_IDLE_SECONDS = 15.0
"""Connections that rest longer are closed. A watch that falls silent is given up later than that, so the next one does
not begin on a connection that died with it.
"""

DEAD_PEER_SECONDS = 25
"""A peer that acknowledges nothing for so long is given up: 10 s of silence, then probes every 5 s."""

# Every TLS connection of asyncio holds a buffer of this size, 256 KB by default, though a TLS record has 16 KB at most.
# With thirty connections that was a tenth of the process's memory.
SSLProtocol.max_size = 2**14


def keepalive_socket(addr_info: tuple[int, int, int, str, tuple[object, ...]]) -> socket.socket:
    """Open an unconnected TCP socket that probes a silent peer and gives up on a dead one.

    A watch only receives, so without this a vanished peer (a node that lost power, a firewall that forgot the
    connection) would look like a quiet one for many minutes.
    """
    family, kind, protocol, _, _ = addr_info
    sock = socket.socket(family, kind, protocol)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", 10),
        ("TCP_KEEPALIVE", 10),
        ("TCP_KEEPINTVL", 5),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", DEAD_PEER_SECONDS * 1000),
    ):
        number = getattr(socket, option, None)  # not every system has every option; macOS calls KEEPIDLE KEEPALIVE
        if number is not None:
            sock.setsockopt(socket.IPPROTO_TCP, number, value)
    return sock


def open_session(
    *,
    ssl: ssl_module.SSLContext | bool = True,
    headers: Mapping[str, str] | None = None,
    proxy: str | None = None,
    connections: int = 64,
) -> aiohttp.ClientSession:
    """Open a session made for an API server; call it inside a running loop and close it.

    ``headers`` should carry ``User-Agent`` (its part before "/" becomes the field manager of our writes) and, where a
    token is used, ``Authorization``. ``connections`` bounds the requests in flight, watches included.
    """
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            ssl=ssl,
            limit=connections,
            ttl_dns_cache=30,
            keepalive_timeout=_IDLE_SECONDS,
            socket_factory=keepalive_socket,
        ),
        cookie_jar=aiohttp.DummyCookieJar(),
        # Compression costs both sides more CPU than the few MB of a list cost a cluster's network.
        headers={"Accept": "application/json", "Accept-Encoding": "identity", **(headers or {})},
        proxy=proxy,
        auto_decompress=True,
        read_bufsize=2**18,
    )


def bind(address: str, port: int) -> socket.socket:
    """Take the port without listening yet, so that nobody is kept waiting; raises OSError when it is taken.

    An empty address means all, IPv6 included where there is some.
    """
    if not address and socket.has_dualstack_ipv6():
        sock = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    else:
        sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((address, port))
    except OSError:
        sock.close()
        raise
    return sock
