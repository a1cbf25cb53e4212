"""The proxy of sandboxes: what is passed on, and lookups."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import h11
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from executor_service.errors import EgressRefused
from executor_service.network.gate import Deadlines, Gate, Resolver
from executor_service.network.requests import (
    BadRequest,
    Incoming,
    OtherHost,
    RequestHead,
    send_request,
)
from executor_service.records.network_policy import (
    EVERYTHING,
    NetworkMode,
    NetworkPolicy,
    Rule,
    Target,
    parse_host,
)
from services.rpc.public_addresses import Address, AddressVetting

# ---- policies


def allow(*rules: Rule) -> NetworkPolicy:
    return NetworkPolicy(NetworkMode.ALLOW_LIST, rules)


@pytest.mark.parametrize(
    ("rule", "reached", "refused"),
    [
        (
            Rule("example.com"),
            ["example.com:443", "example.com:80", "EXAMPLE.com.:443"],
            ["example.com:22", "www.example.com:443", "example.com.evil.org:443", "xample.com:443"],
        ),
        (
            Rule("*.example.com"),
            ["a.example.com:443", "a.b.example.com:80"],
            ["example.com:443", "notexample.com:443", "a.example.com:22", "1.2.3.4:443"],
        ),
        (Rule("git.example.com", (22,)), ["git.example.com:22"], ["git.example.com:443"]),
        (Rule("93.184.216.34"), ["93.184.216.34:443"], ["93.184.216.35:443", "example.com:443"]),
        (Rule("2606:4700::1111"), ["2606:4700:0::1111:443"], ["2606:4700::1112:443"]),
    ],
)
def test_an_allow_list_lets_through_what_it_names(
    rule: Rule, reached: list[str], refused: list[str]
) -> None:
    for text in (*reached, *refused):
        host, _, port = text.rpartition(":")
        found = allow(rule).rule_for(Target.parse(host, int(port)))
        assert (found == rule) == (text in reached), text


def test_the_other_modes_need_no_rules() -> None:
    target = Target.parse("example.com", 8080)
    assert NetworkPolicy().rule_for(target) is None
    assert NetworkPolicy(NetworkMode.OPEN).rule_for(target) is EVERYTHING


@pytest.mark.parametrize(
    "host",
    [
        *(
            "",
            ".",
            "a..b",
            "-a.com",
            "a_b-.com",
            "a b",
            "a/b",
            "*",
            "*.",
            "a*.com",
            "x" * 64,
            "a@b",
        ),
        *("127.1", "0x7f000001", "2130706433", "0177.0.0.1", "1.2.3.4.", "a.0x1", "fe80::1%eth0"),
        *("x" * 64, "example.com:80", "ex\u00e4mple.com", "a.b" * 100),
    ],
)
def test_a_host_has_one_form(host: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_host(host)
    with pytest.raises(ValueError, match=r"."):
        Rule(host)


def test_a_policy_is_checked() -> None:
    for wrong in (("EXAMPLE.com", ()), ("*.10.0.0.1", ()), ("a.com", (0,)), ("a.com", (65536,))):
        with pytest.raises(ValueError, match=r"."):
            Rule(*wrong)
    with pytest.raises(ValueError, match="allow list only"):
        NetworkPolicy(NetworkMode.OPEN, (Rule("a.com"),))
    with pytest.raises(ValueError, match="at most"):
        allow(*[Rule("a.com")] * 257)


def test_a_rule_can_be_written_as_a_text() -> None:
    assert Rule.parse("Example.com") == Rule("example.com")
    assert Rule.parse("*.Example.com:22,443") == Rule("*.example.com", (22, 443))
    assert Rule.parse("[2606:4700:0::1]:8443") == Rule("2606:4700::1", (8443,))
    assert Rule.parse("1.2.3.4:80") == Rule("1.2.3.4", (80,))
    for wrong in ("", "a.com:", "a.com:x", "a.com:99999", "::1", "https://a.com", "a.com/x"):
        with pytest.raises(ValueError, match=r"."):
            Rule.parse(wrong)


def test_only_a_port_that_is_named_may_be_anything_but_tls() -> None:
    web, shell = Rule("a.com"), Rule("a.com", (22, 443))
    assert allow(web).requires_tls(Target("a.com", 443), web)
    assert allow(web).requires_tls(Target("a.com", 80), web)
    assert not allow(shell).requires_tls(Target("a.com", 22), shell)
    assert allow(shell).requires_tls(Target("a.com", 443), shell)
    assert NetworkPolicy(NetworkMode.OPEN).requires_tls(Target("a.com", 443), EVERYTHING)
    assert not NetworkPolicy(NetworkMode.OPEN).requires_tls(Target("a.com", 9), EVERYTHING)


# ---- addresses

ADDRESSES = st.one_of(
    st.integers(0, 2**32 - 1).map(IPv4Address), st.integers(0, 2**128 - 1).map(IPv6Address)
)


@given(ADDRESSES)
@example(IPv6Address("2606:4700::1111"))
@example(IPv4Address("1.1.1.1"))
def test_what_is_reached_is_public(address: IPv4Address | IPv6Address) -> None:
    if AddressVetting().allows(address):
        assert address.is_global
        assert not address.is_multicast


@pytest.mark.parametrize("text", ["1.1.1.1", "8.8.8.8", "93.184.216.34", "2606:4700::1111"])
def test_public_addresses_are_reached(text: str) -> None:
    assert AddressVetting().allows(ip_address(text))
    assert not AddressVetting(refused=[ip_network(text)]).allows(ip_address(text))


@pytest.mark.parametrize(
    "text",
    [
        *("127.0.0.1", "127.77.0.1", "10.0.0.1", "172.16.9.9", "192.168.1.1", "100.64.0.1"),
        *("169.254.169.254", "168.63.129.16", "100.100.100.200", "192.0.0.192", "0.0.0.0"),
        *("224.0.0.1", "240.0.0.1", "255.255.255.255", "198.18.0.1", "192.0.2.1"),
        *("::", "::1", "fe80::1", "fe80::1%1", "fc00::1", "fd00:ec2::254", "ff02::1"),
        *("::ffff:1.1.1.1", "::ffff:127.0.0.1", "::1.1.1.1", "64:ff9b::101:101", "64:ff9b:1::1"),
        *("2002:7f00:1::", "2001::1", "2001:db8::1", "fec0::1", "2606:4700::1111%2"),
    ],
)
def test_addresses_that_are_never_reached(text: str) -> None:
    assert not AddressVetting().allows(ip_address(text))


# ---- HTTP


class Bytes:
    """A source and a sink."""

    def __init__(self, data: bytes = b"", step: int = 5) -> None:
        self.data = data
        self._step = step

    async def read(self, n: int) -> bytes:
        data, self.data = self.data[: min(n, self._step)], self.data[min(n, self._step) :]
        return data

    async def write(self, data: bytes) -> None:
        self.data += data


def head(*lines: str) -> RequestHead:
    text = "\r\n".join([*lines, "", ""])
    return asyncio.run(Incoming(Bytes(text.encode("latin-1"), 70_000)).head())


@pytest.mark.parametrize(
    "lines",
    [
        ("GET / HTTP/2.0", "Host: a.com"),
        ("GET  / HTTP/1.1", "Host: a.com"),
        ("GET /\x01 HTTP/1.1", "Host: a.com"),
        ("GET / HTTP/1.1", "Host: a.com", "Name : value"),
        ("GET / HTTP/1.1", "Host: a.com", "Name: va\rlue"),
        ("GET / HTTP/1.1", "Host: a.com", f"A: {'b' * 200_000}"),
        ("GET / HTTP/1.1", "Host: a.com", "Content-Length: 1", "Content-Length: 2"),
        ("GET / HTTP/1.1", "Host: a.com", "Content-Length: 1", "Transfer-Encoding: chunked"),
        ("GET / HTTP/1.1", "Host: a.com", "Content-Length: -1"),
        ("GET / HTTP/1.1", "Host: a.com", "Transfer-Encoding: gzip, chunked"),
        ("GET / HTTP/1.1", "Host: a.com", "Transfer-Encoding: \xa0chunked"),
    ],
)
def test_what_could_be_read_in_two_ways_is_refused(lines: tuple[str, ...]) -> None:
    with pytest.raises(BadRequest):
        head(*lines)


@pytest.mark.parametrize(
    "target",
    [
        *("/path", "https://a.com/", "ftp://a.com/", "http://", "http://user@a.com/", "*"),
        *("http://a.com:0/", "http://a.com:99999/", "http://127.1/", "http://[::1/"),
        "http://a.com:80:80/",
    ],
)
def test_a_proxy_is_asked_for_whole_addresses(target: str) -> None:
    with pytest.raises(BadRequest):
        head(f"GET {target} HTTP/1.1", "Host: a.com").web_target()


def test_a_request_leads_to_the_host_that_it_names() -> None:
    request = head("GET http://A.com/x?y#z HTTP/1.1", "Host: a.com:80", "Proxy-Connection: close")
    assert request.web_target() == Target("a.com", 80)
    assert request.origin_path() == "/x?y"
    assert head("GET http://a.com?y HTTP/1.1", "Host: a.com").origin_path() == "/?y"
    six = head("CONNECT [2606:4700::1]:443 HTTP/1.0")
    assert six.connect_target() == Target("2606:4700::1", 443)


@pytest.mark.parametrize("hosts", [["evil.com"], ["a.com:8080"], ["a.com", "evil.com"], []])
def test_a_request_cannot_name_two_hosts(hosts: list[str]) -> None:
    fields = [f"Host: {host}" for host in hosts]
    with pytest.raises(BadRequest):
        head("GET http://a.com/ HTTP/1.1", *fields).web_target()
    if hosts and hosts != ["a.com:8080"]:
        with pytest.raises(BadRequest):
            head("CONNECT a.com:443 HTTP/1.1", *fields).connect_target()


def test_two_hosts_are_told_from_other_mistakes() -> None:
    with pytest.raises(OtherHost):
        head("GET http://a.com/ HTTP/1.1", "Host: evil.com").web_target()


def test_no_field_can_have_the_others_dropped() -> None:
    request = head(
        *("GET http://a.com/ HTTP/1.1", "Host: a.com", "Content-Length: 3", "X-Own: 1"),
        "Connection: close, X-Own, Host, Content-Length",
    )
    names = [name for name, _ in request.for_server("/").headers.raw_items()]
    assert names == [b"Host", b"Content-Length", b"Connection"]


async def passed(wire: bytes, step: int = 5) -> bytes:
    """What a server gets of a request."""
    source, sink = Incoming(Bytes(wire, step)), Bytes()
    request = await source.head()
    await send_request(request.for_server(request.origin_path()), source, sink)
    return sink.data


START = b"POST http://a.com/x HTTP/1.1\r\nHost: a.com\r\n"
SENT = b"POST /x HTTP/1.1\r\nHost: a.com\r\n"


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=5), st.integers(1, 50))
def test_chunks_are_passed_on_to_their_end(chunks: list[bytes], step: int) -> None:
    field = b"Transfer-Encoding: chunked\r\n"
    wire = b"".join(b"%x;note=1\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    wire = START + field + b"\r\n" + wire + b"0\r\nTrailer: x\r\n\r\n"
    server = h11.Connection(h11.SERVER)
    server.receive_data(asyncio.run(passed(wire, step)))
    request, data = server.next_event(), b""
    assert isinstance(request, h11.Request)
    while isinstance(event := server.next_event(), h11.Data):
        data += event.data
    assert isinstance(event, h11.EndOfMessage)
    assert (data, list(event.headers), server.trailing_data[0]) == (b"".join(chunks), [], b"")


@given(st.binary(max_size=60), st.integers(0, 70))
def test_a_body_is_passed_on_to_its_end_and_no_further(data: bytes, length: int) -> None:
    fields = b"Content-Length: %d\r\n" % length
    wire = START + fields + b"\r\n" + data
    if length == len(data):
        assert asyncio.run(passed(wire)) == SENT + fields + b"Connection: close\r\n\r\n" + data
    else:
        with pytest.raises(EOFError if length > len(data) else BadRequest):
            asyncio.run(passed(wire))


@pytest.mark.parametrize("body", [b"x\r\n", b"-1\r\n", b"1\r\nxy\r\n", b"\r\n", b"1" * 70_000])
async def test_malformed_chunks_are_refused(body: bytes) -> None:
    with pytest.raises(BadRequest):
        await passed(START + b"Transfer-Encoding: chunked\r\n\r\n" + body, 4096)


SANDBOXES = 20
TURNS = 4
"""What one sandbox may look up at a time."""
PRIVATE = ip_address("10.0.0.1")


@pytest.fixture
def answers() -> Iterator[threading.Event]:
    """Set once the servers answer; they do at the end."""
    answers = threading.Event()
    yield answers
    answers.set()


def gate(answers: threading.Event) -> Gate:
    """A gate to a world in which some names are not answered for."""

    def look_up(host: str) -> Sequence[Address]:
        if host.startswith("stuck"):
            answers.wait(30)
        return [PRIVATE]

    return Gate(AddressVetting(), Resolver(look_up), Deadlines(resolve_s=0.5))


async def outcome(gate: Gate, turns: asyncio.Semaphore, host: str) -> str:
    """How a connection is refused."""
    with pytest.raises(EgressRefused) as refused:
        async with gate.connect(Target(host, 443), turns):
            pass
    return refused.value.outcome


async def test_sandboxes_that_wait_for_names_keep_no_other_waiting(
    answers: threading.Event,
) -> None:
    opened = gate(answers)
    attackers = [asyncio.Semaphore(TURNS) for _ in range(SANDBOXES)]
    stuck = [
        outcome(opened, turns, f"stuck{number}.test")
        for turns in attackers
        for number in range(2 * TURNS)
    ]
    assert set(await asyncio.gather(*stuck)) == {"unresolved"}
    # They still have all that they may have, and another one has its own.
    assert all(turns.locked() for turns in attackers)
    assert await outcome(opened, asyncio.Semaphore(TURNS), "good.test") == "address_refused"


async def test_a_turn_is_over_when_its_lookup_is(answers: threading.Event) -> None:
    opened, turns = gate(answers), asyncio.Semaphore(1)
    assert await outcome(opened, turns, "stuck.test") == "unresolved"
    assert await outcome(opened, turns, "good.test") == "unresolved"
    assert turns.locked()
    answers.set()
    async with asyncio.timeout(5):
        await turns.acquire()
    turns.release()
    assert await outcome(opened, turns, "good.test") == "address_refused"
