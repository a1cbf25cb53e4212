"""What decides about the way out: policies, addresses, and requests."""

import asyncio
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from executor_service.egress.bodies import Input, pass_body
from executor_service.egress.http_head import BadRequest, OtherHost, RequestHead
from executor_service.egress.policy import (
    EVERYTHING,
    NetworkMode,
    NetworkPolicy,
    Rule,
    Target,
    host_of,
)
from services.public_addresses import AddressVetting

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
        found = allow(rule).rule_for(Target.of(host, int(port)))
        assert (found == rule) == (text in reached), text


def test_the_other_modes_need_no_rules() -> None:
    target = Target.of("example.com", 8080)
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
        host_of(host)
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


def head(*lines: str) -> RequestHead:
    return RequestHead.parse("\r\n".join([*lines, "", ""]).encode("latin-1"))


@pytest.mark.parametrize(
    "lines",
    [
        ("GET /",),
        ("GET / HTTP/2.0",),
        ("GET  / HTTP/1.1",),
        ("G(T / HTTP/1.1",),
        ("GET /\x01 HTTP/1.1",),
        ("GET / HTTP/1.1", "no colon"),
        ("GET / HTTP/1.1", "Name : value"),
        ("GET / HTTP/1.1", " folded: value"),
        ("GET / HTTP/1.1", "Name: va\nlue"),
        ("GET / HTTP/1.1", "Name: va\0lue"),
        ("GET / HTTP/1.1", *["A: b"] * 201),
    ],
)
def test_a_head_is_read_strictly(lines: tuple[str, ...]) -> None:
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
    assert head("GET http://a.com?y HTTP/1.1").origin_path() == "/?y"
    sent = request.for_server("/x?y").pack()
    assert sent == b"GET /x?y HTTP/1.1\r\nHost: a.com:80\r\nConnection: close\r\n\r\n"
    six = head("CONNECT [2606:4700::1]:443 HTTP/1.1")
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
    names = [name for name, _ in request.for_server("/").fields]
    assert names == ["Host", "Content-Length", "Connection"]


@pytest.mark.parametrize(
    "fields",
    [
        ("Content-Length: 1", "Content-Length: 2"),
        ("Content-Length: 1", "Transfer-Encoding: chunked"),
        ("Content-Length: +1",),
        ("Content-Length: 1, 1",),
        ("Content-Length: -1",),
        ("Transfer-Encoding: gzip, chunked",),
        ("Transfer-Encoding: chunked", "Transfer-Encoding: chunked"),
        ("Transfer-Encoding: identity",),
        ("Transfer-Encoding: \xa0chunked",),
        ("Transfer-Encoding: chunked\x85",),
    ],
)
def test_a_body_has_one_length(fields: tuple[str, ...]) -> None:
    with pytest.raises(BadRequest):
        head("POST http://a.com/ HTTP/1.1", *fields).body_length()


class Bytes:
    """A source and a sink."""

    def __init__(self, data: bytes = b"", step: int = 5) -> None:
        self.data = data
        self.writes = 0
        self._step = step

    async def read(self, n: int) -> bytes:
        data, self.data = self.data[: min(n, self._step)], self.data[min(n, self._step) :]
        return data

    async def write(self, data: bytes) -> None:
        self.data += data
        self.writes += 1


def test_a_coding_may_have_spaces_around_it() -> None:
    for field in ("chunked", " \tchunked\t ", "Chunked"):
        lines = ("POST http://a.com/ HTTP/1.1", f"Transfer-Encoding:{field}")
        assert head(*lines).body_length() is None


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=5), st.integers(1, 50))
def test_chunks_come_as_they_were(chunks: list[bytes], step: int) -> None:
    wire = b"".join(b"%x;note=1\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    plain = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    rest = b"GET http://evil.com/ HTTP/1.1\r\n\r\n"
    source, sink = Input(Bytes(wire + b"0\r\nTrailer: x\r\n\r\n" + rest, step)), Bytes()
    asyncio.run(pass_body(source, sink, None))
    assert sink.data == plain + b"0\r\n\r\n"


async def test_tiny_chunks_let_others_have_their_turns() -> None:
    wire = b"1\r\nx\r\n" * 6400 + b"0\r\n\r\n"
    sink, turns = Bytes(), 0
    passing = asyncio.create_task(pass_body(Input(Bytes(wire, len(wire))), sink, None))
    while not passing.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns >= 100
    assert sink.data == wire
    assert sink.writes == 6401


@given(st.binary(max_size=60), st.integers(0, 70))
def test_a_body_is_passed_on_to_its_end_and_no_further(data: bytes, length: int) -> None:
    source, sink = Input(Bytes(data)), Bytes()
    if length <= len(data):
        asyncio.run(pass_body(source, sink, length))
    else:
        with pytest.raises(EOFError):
            asyncio.run(pass_body(source, sink, length))
    assert sink.data == data[:length]


@pytest.mark.parametrize(
    "wire",
    [
        *(b"x\r\n", b"-1\r\n", b"1\nx\r\n", b" 1\r\nx\r\n", b"1\r\nxy\r\n", b"\r\n", b"1" * 9000),
        *(b"ffffffffffffffff1\r\n", b"0\r\n" + b"A: b\r\n" * 200),
    ],
)
async def test_malformed_chunks_are_refused(wire: bytes) -> None:
    with pytest.raises((BadRequest, EOFError)):
        await pass_body(Input(Bytes(wire, 4096)), Bytes(), None)
