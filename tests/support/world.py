"""A small internet for egress tests: real servers for HTTP and HTTPS on addresses of the loopback
that count as public here, names for them, and a certificate authority that signs for the names.
"""

import asyncio
import base64
import hashlib
import json
import ssl
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from ipaddress import IPv4Network, ip_address
from pathlib import Path

from aiohttp import web
from prometheus_client import CollectorRegistry

from executor_service.metrics import EgressMetrics
from executor_service.network.gate import Deadlines, Gate
from executor_service.network.network import Networks, SandboxNetwork
from executor_service.records.network_policy import NetworkMode, NetworkPolicy, Rule
from services.lifecycle import Failure, Workers
from services.rpc.auth import Identity
from services.rpc.certs import init, issue
from services.rpc.public_addresses import Address, AddressVetting
from services.telemetry.metrics import Meter
from tests.support.boxes import Console, Yard, open_console
from tests.support.ports import free_port

PUBLIC = IPv4Network("127.77.0.0/16")
"""What counts as public addresses here."""
FRIENDLY, HOSTILE, PRIVATE = "127.77.0.1", "127.77.0.2", "127.0.0.1"
"""Three machines: two that are public, and one of the host's own."""
NAMES = {
    "good.test": (FRIENDLY,),
    "api.good.test": (FRIENDLY,),
    "other.good.test": (HOSTILE,),
    "evil.test": (HOSTILE,),
    "inside.test": (PRIVATE,),
    "metadata.test": ("169.254.169.254", "fe80::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1"),
    "half.test": (PRIVATE, FRIENDLY),
}
FETCH = """
import json, os, ssl, sys, urllib.request
from concurrent.futures import ThreadPoolExecutor
trust = ssl.create_default_context(cadata=os.environ["AUTHORITY"])
def fetch(url):
    data = os.urandom(int(os.environ["UPLOAD"])) if "UPLOAD" in os.environ else None
    try:
        with urllib.request.urlopen(url, data, timeout=20, context=trust) as answer:
            body = answer.read()
    except OSError as error:
        return str(getattr(error, "code", "") or getattr(error, "reason", error))
    return json.loads(body)["machine"] if body[:1] == b"{" else str(len(body))
with ThreadPoolExecutor(int(os.environ.get("AT_ONCE", "1"))) as threads:
    print(json.dumps(list(threads.map(fetch, os.environ["URLS"].split()))))
"""
"""Gets each of URLS: the machine that answered, or how many bytes came, or how it failed."""
DIRECT = """
import json, socket, sys
def attempt(family, kind, address):
    with socket.socket(family, kind) as attempt:
        attempt.settimeout(3)
        try:
            attempt.connect(tuple(address))
            if kind == socket.SOCK_DGRAM:
                attempt.send(b"x")
        except OSError as error:
            return type(error).__name__
    return "connected"
def look_up(name):
    try:
        return socket.getaddrinfo(name, 80)[0][4][0]
    except OSError as error:
        return type(error).__name__
kinds = {"tcp": socket.SOCK_STREAM, "udp": socket.SOCK_DGRAM}
for kind, host, port in json.loads(sys.argv[1]):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    print(look_up(host) if kind == "dns" else attempt(family, kinds[kind], (host, port)))
"""
"""Connects to places without a proxy; prints what came of each."""
ASK = """
import json, socket, sys
for asked in json.loads(sys.argv[1]):
    with socket.create_connection(("127.0.0.1", 3128), 10) as proxy:
        answer = b""
        try:
            proxy.sendall(bytes.fromhex(asked[0]))
            proxy.settimeout(5)
            while b"\\r\\n\\r\\n" not in answer:
                answer += proxy.recv(65536) or 1 / 0
            for more in asked[1:]:
                proxy.sendall(bytes.fromhex(more))
                answer += b"|"
                answer += proxy.recv(65536)
        except (OSError, ZeroDivisionError) as error:
            answer += type(error).__name__.encode()
    print(answer.hex())
"""
"""Says to the proxy what it is told to, one connection each; prints what came back."""
DEADLINES = Deadlines(request_s=3, resolve_s=2, connect_s=2, idle_s=5)


@dataclass(slots=True)
class Names:
    """A resolver that knows a few names, and what it was asked."""

    known: dict[str, Sequence[str]] = field(default_factory=lambda: dict(NAMES))
    turns: dict[str, list[Sequence[str]]] = field(default_factory=dict[str, list[Sequence[str]]])
    """Names whose answer changes each time that it is asked for."""
    asked: list[str] = field(default_factory=list[str])

    async def __call__(self, host: str) -> Sequence[Address]:
        self.asked.append(host)
        turns = self.turns.get(host)
        found = turns.pop(0) if turns else self.known.get(host, ())
        return [ip_address(text) for text in found]


@dataclass(slots=True)
class Seen:
    """One request that a server has got."""

    machine: str
    method: str
    host: str
    path: str
    headers: dict[str, str]
    body_bytes: int


@dataclass(slots=True)
class World:
    """The servers, what they were asked, and how to get there."""

    http_port: int
    https_port: int
    authority: str
    """The authority's certificate, in PEM form."""
    names: Names = field(default_factory=Names)
    seen: list[Seen] = field(default_factory=list[Seen])
    connections: list[str] = field(default_factory=list[str])
    """The machines that were connected to without HTTP, one entry for each."""
    raw_port: int = 0
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)

    def gate(self, deadlines: Deadlines = DEADLINES, vetting: AddressVetting | None = None) -> Gate:
        """The way to these servers, whose certificates count."""
        trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        trust.load_verify_locations(cadata=self.authority)
        vetting = vetting or AddressVetting(public=[PUBLIC])
        return Gate(vetting, self.names, deadlines, trust)

    def network(self, workers: Workers, gate: Gate | None = None) -> SandboxNetwork:
        """The network of one sandbox in this world."""
        self.registry = CollectorRegistry()
        metrics = EgressMetrics.create(Meter(self.registry))
        return Networks(gate or self.gate(), metrics, workers).make(b"")

    def allow(self, *hosts: str) -> NetworkPolicy:
        """An allow list with the ports of these servers."""
        ports = (self.http_port, self.https_port)
        rules = tuple(Rule(host, ports) for host in hosts)
        return NetworkPolicy(NetworkMode.ALLOW_LIST, rules)

    @staticmethod
    def basic(field: str) -> str:
        """What basic authentication says."""
        return base64.b64decode(field.partition(" ")[2]).decode()

    def http(self, host: str, path: str = "/") -> str:
        """An address of a server."""
        return f"http://{host}:{self.http_port}{path}"

    def https(self, host: str, path: str = "/") -> str:
        """An address of a server, with TLS."""
        return f"https://{host}:{self.https_port}{path}"

    @asynccontextmanager
    async def connected(
        self, yard: Yard, policy: NetworkPolicy, gate: Gate | None = None
    ) -> AsyncGenerator[tuple[Console, SandboxNetwork]]:
        """A box with a policy in this world."""
        failures: list[Failure] = []
        async with (
            Workers(failures.append) as workers,
            yard.box() as box,
            open_console(yard.backend, box) as console,
        ):
            network = self.network(workers, gate)
            network.apply(policy)
            await network.announce(console.link.streams)
            yield console, network
            assert not failures

    async def fetch(self, console: Console, *urls: str, **env: str) -> list[str]:
        """What a command got from each address."""
        env |= {"URLS": " ".join(urls), "AUTHORITY": self.authority}
        answers: list[str] = json.loads(await console.python(FETCH, env=env))
        return answers

    def counted(self, rule: str, outcome: str) -> float:
        """Connections that came under a rule and ended so."""
        labels = {"rule": rule, "outcome": outcome}
        return self.registry.get_sample_value("hermes_egress_connections_total", labels) or 0.0

    def passed(self, rule: str, direction: str) -> float:
        """Bytes that went in or out under a rule."""
        labels = {"rule": rule, "direction": direction}
        return self.registry.get_sample_value("hermes_egress_bytes_total", labels) or 0.0


@asynccontextmanager
async def open_world(folder: Path) -> AsyncGenerator[World]:
    """The servers for the time of the block."""
    files, authority = await asyncio.to_thread(_certificates, folder)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    await asyncio.to_thread(context.load_cert_chain, files[0], files[1])
    # One port on every machine: free on all of them.
    world = World(free_port(), free_port(), authority, raw_port=free_port())
    async with AsyncExitStack() as stack:
        app = web.Application(client_max_size=1 << 30)
        app.router.add_route("*", "/{path:.*}", partial(_answer, world))
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        for machine in (FRIENDLY, HOSTILE, PRIVATE):
            site = web.TCPSite(runner, machine, world.http_port)
            await site.start()
        for machine in (FRIENDLY, HOSTILE, PRIVATE):
            site = web.TCPSite(runner, machine, world.https_port, ssl_context=context)
            await site.start()
        for machine in (FRIENDLY, HOSTILE, PRIVATE):
            raw = await asyncio.start_server(partial(_echo, world), machine, world.raw_port)
            await stack.enter_async_context(raw)
        yield world


async def _echo(world: World, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Says hello first, then repeats what it hears."""
    world.connections.append(writer.get_extra_info("sockname")[0])
    try:
        writer.write(b"hello\n")
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


async def _answer(world: World, request: web.Request) -> web.StreamResponse:
    digest, size = hashlib.sha256(), 0
    async for chunk in request.content.iter_chunked(65536):
        digest.update(chunk)
        size += len(chunk)
    assert request.transport is not None
    machine = request.transport.get_extra_info("sockname")[0]
    headers = {name.lower(): value for name, value in request.headers.items()}
    world.seen.append(Seen(machine, request.method, request.host, request.path_qs, headers, size))
    if request.path == "/bytes":
        return web.Response(body=bytes(int(request.query["n"])))
    if request.path == "/slow":
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"tick\n")
            await asyncio.sleep(0.05)
    return web.json_response(
        {"machine": machine, "host": request.host, "size": size, "sha256": digest.hexdigest()}
    )


def _certificates(folder: Path) -> tuple[tuple[Path, Path], str]:
    """Certificate and key for all names, and the authority's certificate."""
    place = folder / "world-certificates"
    now = datetime.now(UTC)
    authority = init(place, now)
    files = issue(place, Identity.EXECUTOR, [*NAMES, "*.good.test", FRIENDLY], now)
    return (files.certificate, files.key), authority.read_text()


async def ask(console: Console, *asked: list[bytes]) -> list[bytes]:
    """What the proxy answers to each; what comes back for what follows is after a `|`."""
    given = json.dumps([[part.hex() for part in parts] for parts in asked])
    recorder = await console.start("/usr/bin/env", "python3", "-c", ASK, given)
    exit_ = await recorder.exit(timeout_s=60)
    assert exit_.code == 0, recorder.stderr
    return [bytes.fromhex(line) for line in recorder.stdout.splitlines()]


def connect(host: str, port: int, named: str = "") -> bytes:
    return f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {named or f'{host}:{port}'}\r\n\r\n".encode()


def get(host: str, port: int, named: str = "", more: str = "") -> bytes:
    first = f"GET http://{host}:{port}/ HTTP/1.1\r\nHost: {named or f'{host}:{port}'}\r\n"
    return f"{first}{more}\r\n".encode()
