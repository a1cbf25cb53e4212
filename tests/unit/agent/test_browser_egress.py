"""What a browser's proxy lets through, and where it leads."""

import asyncio
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from agent_service.clients.browsers import BrowserProcess
from agent_service.records.model import encoded
from agent_service.tools.base import Caller
from agent_service.tools.browser.browsers import BrowserGone
from agent_service.tools.browser.egress import Hosts, Proxy, is_public
from agent_service.tools.browser.tools import file_name, is_named, is_silent_key

LISTS = Hosts(["shop.example", "*.news.example"], ["ads.news.example"])


@pytest.mark.parametrize(
    ("host", "why"),
    [
        ("shop.example", ""),
        ("SHOP.example.", ""),
        ("a.b.news.example", ""),
        ("news.example", "not on security.browser.allow"),
        ("shop.example.evil.example", "not on security.browser.allow"),
        ("xshop.example", "not on security.browser.allow"),
        ("ads.news.example", "on security.browser.deny"),
    ],
)
def test_lists_name_hosts_and_what_is_below_them(host: str, why: str) -> None:
    assert why in LISTS.why_not(host)
    assert bool(why) == bool(LISTS.why_not(host))


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.1.2.3", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0"),
        *("::1", "fe80::1%eth0", "fd00::1", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::"),
        *("224.0.0.1", "ff0e::1", "2001:0:808:808::1"),
    ],
)
def test_addresses_that_are_not_public_are_known(address: str) -> None:
    assert not is_public(address)


async def asked(proxy: Proxy, request: bytes) -> bytes:
    """What a proxy answers."""
    async with proxy.serving() as url:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        writer.write(request)
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
    return answer


async def reached(
    monkeypatch: pytest.MonkeyPatch, request: bytes, hosts: Hosts
) -> tuple[list[bytes], bytes, Proxy]:
    """What a proxy's upstream gets of a request, and what comes back."""
    got: list[bytes] = []

    async def upstream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        got.append(await reader.readuntil(b"\r\n\r\n"))
        refused = b"HTTP/1.1 403 No\r\n\r\nit is refused"
        writer.write(refused if b"refused" in got[0] else b"HTTP/1.1 200 OK\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(upstream, "127.0.0.1", 0)
    port: int = server.sockets[0].getsockname()[1]
    monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{port}")
    proxy = Proxy(hosts)
    answer = await asked(proxy, request)
    server.close()
    return got, answer, proxy


@pytest.mark.parametrize(
    ("line", "is_sent"),
    [
        (b"CONNECT shop.example:443 HTTP/1.1", True),
        (b"CONNECT other.example:443 HTTP/1.1", False),
        (b"GET http://shop.example/a?b HTTP/1.1", True),
        (b"GET http://user@other.example/ HTTP/1.1", False),
        (b"GET http://other.example#@shop.example/ HTTP/1.1", False),
        (b"GET /a HTTP/1.1", False),
        (b"rubbish", False),
    ],
)
async def test_only_listed_hosts_are_passed_on(
    monkeypatch: pytest.MonkeyPatch, line: bytes, is_sent: bool
) -> None:
    got, answer, _ = await reached(
        monkeypatch, line + b"\r\nProxy-Connection: keep-alive\r\n\r\n", LISTS
    )
    assert bool(got) == is_sent
    assert answer.startswith(b"HTTP/1.1 200") == is_sent
    if is_sent and line.startswith(b"GET"):
        # The next request of the connection could be for another host.
        assert got == [line + b"\r\nConnection: close\r\n\r\n"]


async def test_the_reason_of_the_sandbox_s_own_proxy_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    request = b"CONNECT refused.example:443 HTTP/1.1\r\n\r\n"
    _, answer, proxy = await reached(monkeypatch, request, Hosts([], []))
    assert answer == b""
    assert proxy.refused == {"refused.example": "it is refused"}


async def test_without_a_proxy_of_the_sandbox_only_public_addresses_are_reached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("HTTPS_PROXY", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    for hosts, is_sent in ((Hosts([], []), False), (Hosts(["localhost"], []), True)):
        server = await asyncio.start_server(_answer, "127.0.0.1", 0)
        port: int = server.sockets[0].getsockname()[1]
        answer = await asked(Proxy(hosts), b"GET http://localhost:%d/x HTTP/1.1\r\n\r\n" % port)
        assert answer.endswith(b"GET /x HTTP/1.1") == is_sent
        server.close()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + head.partition(b"\r\n")[0])
    writer.close()


async def test_names_without_a_proxy_are_resolved() -> None:
    # The resolver takes this for 127.0.0.1.
    assert "127.1 is not a public address" in await Hosts([], []).why_not_direct("http://127.1/")
    assert await Hosts(["127.1"], []).why_not_direct("http://127.1/") == ""
    assert await Hosts([], []).why_not_direct(f"http://{'a' * 70}.example/") == ""


@pytest.mark.parametrize(
    ("keys", "is_silent"),
    [
        ("Enter Tab Shift+Tab Escape ArrowUp PageDown Home End Backspace Delete F1 F12", True),
        ("a KeyA Digit1 Control+KeyV Control+v Shift+Insert Space Numpad1 Shift+Enter F13", False),
    ],
)
def test_keys_that_enter_nothing_are_listed(keys: str, is_silent: bool) -> None:
    assert {is_silent_key(key) for key in keys.split()} == {is_silent}


@pytest.mark.parametrize(
    ("said", "is_said"),
    [
        ("Order it at www.shop.example, please", True),
        ("https://shop.example/cart", True),
        ("https://pay.shop.example/", False),
        ("shop.example.evil.org", False),
        ("myshop.example", False),
        ("[Untrusted data 123 from a file] shop.example", False),
    ],
)
def test_a_host_is_named_by_the_user_alone(said: str, is_said: bool) -> None:
    own = encoded({"role": "user", "content": said})
    other = encoded({"role": "tool", "tool_call_id": "x", "content": "shop.example"})
    assert is_named("shop.example", [other, own], Caller()) == is_said
    subagent = Caller(origin={"platform": "subagent"})
    assert not is_named("shop.example", [other, own], subagent)


@pytest.mark.parametrize(
    ("given", "name"),
    [("a.csv", "a.csv"), ("../../.bashrc", "bashrc"), ("..", "file"), ("/", "file")],
)
def test_downloads_have_no_name_outside_their_folder(given: str, name: str) -> None:
    assert file_name(given) == name


async def test_a_driver_that_says_too_much_is_ended(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        "cat", "/dev/zero", stdin=PIPE, stdout=PIPE, limit=1000
    )
    with pytest.raises(BrowserGone, match="it answered with more than"):
        await BrowserProcess(process, tmp_path / "none").exchange({"id": 1})
    assert process.returncode is not None
