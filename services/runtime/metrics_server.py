"""The HTTP port for Prometheus and for health probes."""

import asyncio
import errno
import os
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from types import MappingProxyType
from urllib.parse import parse_qs

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector

from services.lifecycle import Workers
from services.rpc.addresses import TcpAddress
from services.rpc.listeners import ListenFailed
from services.telemetry.metrics import Checks

_REQUEST_TIMEOUT_S = 5.0
_MAX_REQUEST_BYTES = 8192


class MetricsListenFailed(ListenFailed):
    """The port for metrics cannot be listened on; the message says how to choose another."""

    def __init__(self, address: TcpAddress, error: OSError) -> None:
        super().__init__(_advice(address, error))
        self.is_in_use = error.errno == errno.EADDRINUSE


@asynccontextmanager
async def serve_metrics(
    collector: Collector, host: str, port: int, *, checks: Checks = MappingProxyType({})
) -> AsyncGenerator[TcpAddress]:
    """Serve /metrics, /livez and /readyz while inside; raises MetricsListenFailed.

    /readyz lists failing checks; /readyz?exclude=NAME skips one, as in Kubernetes. Yields the
    address with the actual port.
    """
    async with Workers() as workers:

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            workers.start("metrics", _answer(collector, checks, reader, writer))

        try:
            server = await asyncio.start_server(connected, host, port, limit=_MAX_REQUEST_BYTES)
        except OSError as error:
            raise MetricsListenFailed(TcpAddress(host, port), error) from error
        async with server:
            yield TcpAddress(host, server.sockets[0].getsockname()[1])


async def _answer(
    collector: Collector, checks: Checks, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    try:
        async with asyncio.timeout(_REQUEST_TIMEOUT_S):
            head = await reader.readuntil(b"\r\n\r\n")
            writer.write(await _response(collector, checks, head.decode("latin-1")))
            await writer.drain()
    except (TimeoutError, ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        pass  # the client sees the connection end
    finally:
        writer.close()


async def _response(collector: Collector, checks: Checks, head: str) -> bytes:
    method, _, target = head.partition("\r\n")[0].partition(" ")
    path, _, query = target.partition(" ")[0].partition("?")
    if method not in ("GET", "HEAD"):
        return _http("405 Method Not Allowed", "text/plain", b"GET only\n")
    if path in ("/livez", "/readyz"):
        why_not = _why_not(checks, query) if path == "/readyz" else ""
        status = "503 Service Unavailable" if why_not else "200 OK"
        body = f"{why_not or 'ok'}\n".encode()
        return _http(status, "text/plain", body, with_body=method == "GET")
    if path != "/metrics":
        return _http("404 Not Found", "text/plain", b"the metrics are at /metrics\n")
    # In a thread: thousands of series take milliseconds.
    body = await asyncio.to_thread(generate_latest, collector)
    return _http("200 OK", CONTENT_TYPE_PLAIN_0_0_4, body, with_body=method == "GET")


def _why_not(checks: Checks, query: str) -> str:
    left_out = parse_qs(query).get("exclude", ())
    reports = (check() for name, check in checks.items() if name not in left_out)
    return "; ".join(filter(None, reports))


def _http(status: str, content_type: str, body: bytes, *, with_body: bool = True) -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode("latin-1") + (body if with_body else b"")


def _advice(address: TcpAddress, error: OSError) -> str:
    unknown_host = isinstance(error, socket.gaierror)
    reason = error.strerror if unknown_host else os.strerror(error.errno or 0)
    return (
        f"cannot serve metrics on {address}: {reason}; choose another address with "
        "services.metrics.host and services.metrics.port (0 for any free port)"
    )
