"""Connections to models that are kept, proxies, and how calls fail."""

import asyncio
import json
from asyncio import StreamReader, StreamWriter
from base64 import b64encode
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from traceback import format_exception

import pytest
from pydantic import SecretStr

from agent_service.models.discovery import fetch_models
from agent_service.models.endpoint_models import list_models
from agent_service.models.endpoints import Endpoint
from agent_service.models.provider import Provider
from agent_service.models.proxies import open_session, proxy_of
from agent_service.models.wires.chat_completions import ChatCompletions
from agent_service.models.wires.transport import Timeouts
from agent_service.records.model import ModelMessage, ModelRequest, encoded
from agent_service.records.model_errors import ModelError, ModelErrorKind, RetryPolicy
from services.errors import ServiceUnavailable

Serve = Callable[[StreamReader, StreamWriter], Awaitable[None]]

_ANSWER = json.dumps(
    {"choices": [{"message": {"role": "assistant", "content": "Yes."}, "finish_reason": "stop"}]}
).encode()


async def test_a_connection_that_the_server_has_closed_is_not_taken_again() -> None:
    accepted: list[StreamWriter] = []
    closed = asyncio.Event()

    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        accepted.append(writer)
        await _request(reader)
        _answer(writer)
        writer.write_eof()
        await reader.read()  # until the client has let go of it, too
        closed.set()

    async with _serving(serve) as port, _provider(f"http://127.0.0.1:{port}/v1") as provider:
        for _ in range(3):
            await _ask(provider, "Hello?")
            await closed.wait()
            closed.clear()
    assert len(accepted) == 3


async def test_the_query_of_a_base_url_stays_behind_the_path() -> None:
    asked: list[bytes] = []

    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        asked.append((await _request(reader))[0])
        _answer(writer)

    async with (
        _serving(serve) as port,
        _provider(f"http://127.0.0.1:{port}/deployments/d?api-version=1&key=a") as provider,
    ):
        await _ask(provider, "Hello?")
    path = b"/deployments/d/chat/completions?api-version=1&key=a"
    assert asked == [b"POST " + path + b" HTTP/1.1"]


async def _hangs_up(reader: StreamReader, writer: StreamWriter) -> None:
    await _request(reader)


async def _speaks_something_else(reader: StreamReader, writer: StreamWriter) -> None:
    writer.write(b"SSH-2.0-OpenSSH_9.2p1\r\n")
    await reader.read()


@pytest.mark.parametrize(
    ("scheme", "serve", "reason"),
    [
        ("http", _hangs_up, "Server disconnected"),
        ("http", _speaks_something_else, "what it says is not HTTP"),
        ("https", _speaks_something_else, r"\[SSL: WRONG_VERSION_NUMBER\]"),
    ],
)
async def test_what_gives_no_answer_cannot_be_reached(
    scheme: str, serve: Serve, reason: str
) -> None:
    async with _serving(serve) as port, _provider(f"{scheme}://127.0.0.1:{port}/v1") as provider:
        with pytest.raises(ModelError, match=rf"^Cannot reach .+ \({reason}") as failed:
            await _ask(provider, "Hello?")
    assert failed.value.kind is ModelErrorKind.CONNECTION


async def test_a_handshake_without_end_is_no_connection() -> None:
    async with (
        _serving(_hangs_up) as port,
        _provider(f"https://127.0.0.1:{port}/v1", Timeouts(connect_s=0.05)) as provider,
    ):
        with pytest.raises(ModelError, match=r"no connection within 0\.05 s.*NetworkPolicy"):
            await _ask(provider, "Hello?")


async def test_other_machines_are_asked_by_the_proxy_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[bytes] = []

    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        asked.append((await _request(reader))[0])
        _answer(writer)

    async with _serving(serve) as port:
        _without_proxies(monkeypatch)
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{port}")
        async with _provider("http://model.test/v1") as far:
            await _ask(far, "Hello?")
        async with _provider(f"http://127.0.0.1:{port}/v1") as near:
            await _ask(near, "Hello?")
    assert asked == [
        b"POST http://model.test/v1/chat/completions HTTP/1.1",
        b"POST /v1/chat/completions HTTP/1.1",
    ]


@pytest.mark.parametrize(
    ("variable", "scheme"), [("ALL_PROXY", "socks5"), ("https_proxy", "SOCKS4")]
)
async def test_a_proxy_that_is_not_http_is_refused_and_nothing_is_sent(
    monkeypatch: pytest.MonkeyPatch, variable: str, scheme: str
) -> None:
    sent: list[bytes] = []

    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        sent.append(await reader.read(1))

    async with _serving(serve) as port:
        _without_proxies(monkeypatch)
        monkeypatch.setenv(variable, f"{scheme}://user:s3cret@127.0.0.1:{port}")
        async with _provider("https://model.test/v1") as far:
            with pytest.raises(ModelError) as refused:
                await _ask(far, "Hello?")
        with pytest.raises(ServiceUnavailable, match=variable.upper()):
            await open_session("https://model.test/v1/models")
    said = str(refused.value)
    assert f"{variable.upper()} names a {scheme.lower()} proxy" in said
    assert "add model.test to NO_PROXY" in said
    assert "s3cret" not in said
    assert not refused.value.retryable
    assert sent == []


@pytest.mark.parametrize(
    ("exempt", "is_direct"),
    [
        ("*", True),
        ("other.test, model.test", True),
        ("model.test:8000", True),
        (".test", True),
        ("*.test", True),
        ("TEST", True),
        ("", False),
        ("del.test,model.test:80,10.0.0.0/8", False),
    ],
)
def test_no_proxy_names_what_is_asked_directly(
    monkeypatch: pytest.MonkeyPatch, exempt: str, is_direct: bool
) -> None:
    _without_proxies(monkeypatch)
    monkeypatch.setenv("ALL_PROXY", "proxy.test:3128")
    monkeypatch.setenv("NO_PROXY", exempt)
    found = proxy_of("http://model.test:8000/v1")
    assert found == (None if is_direct else "http://proxy.test:3128")
    monkeypatch.setenv("NO_PROXY", "10.0.0.0/8")
    assert proxy_of("http://10.1.2.3/v1") is None


async def test_azure_gets_the_key_in_its_own_header(monkeypatch: pytest.MonkeyPatch) -> None:
    heads: list[bytes] = []

    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        _answer(writer)

    async with _serving(serve) as port:
        _without_proxies(monkeypatch)
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{port}")
        async with _provider("http://me.openai.azure.com/openai/deployments/d?v=1") as azure:
            await _ask(azure, "Hello?")
    assert b"\r\napi-key: key\r\n" in heads[0].lower()
    assert b"authorization" not in heads[0].lower()


async def test_a_proxy_that_wants_other_credentials_tells_nobody_those_that_it_got(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[bytes] = []

    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")

    async with _serving(serve) as port:
        _without_proxies(monkeypatch)
        monkeypatch.setenv("https_proxy", f"http://tok3nABCDEF@127.0.0.1:{port}")
        async with _provider("https://model.test/v1") as far:
            with pytest.raises(ModelError, match=r"\(the proxy says 407") as refused:
                await _ask(far, "Hello?")
    assert b64encode(b"tok3nABCDEF:") in asked[0]
    assert "tok3n" not in "".join(format_exception(refused.value))


async def test_a_proxy_gets_no_key_of_a_listing_and_its_password_is_not_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[bytes] = []

    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")

    told: list[Exception] = []
    async with _serving(serve) as port:
        _without_proxies(monkeypatch)
        for proxy in (f"http://tok3n@127.0.0.1:{port}", "http://tok3n@127.0.0.1:bad"):
            monkeypatch.setenv("https_proxy", proxy)
            for host in ("model.test", "me.openai.azure.com"):
                with pytest.raises(ModelError) as listing:
                    await list_models(_endpoint(f"https://{host}/v1"))
                told.append(listing.value)
            with pytest.raises(ServiceUnavailable) as catalogue:
                await fetch_models("https://catalogue.test/models")
            async with _provider("https://model.test/v1") as far:
                with pytest.raises(ModelError) as call:
                    await _ask(far, "Hello?")
            told += [catalogue.value, call.value]
    assert [head.split()[0] for head in asked] == [b"CONNECT"] * 4
    assert b"k3y" not in b"".join(asked)
    assert ["the proxy says 407" in str(error) for error in told] == [True] * 4 + [False] * 4
    assert "tok3n" not in "".join(line for error in told for line in format_exception(error))


async def test_a_name_in_a_base_url_is_not_sent() -> None:
    heads: list[bytes] = []

    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 23\r\n\r\n" + b'{"data":[{"id":"one"}]}')

    async with _serving(serve) as port:
        (model,) = await list_models(_endpoint(f"http://me:secret@127.0.0.1:{port}/v1"))
    assert model.id == "one"
    assert b"authorization: bearer k3y\r\n" in heads[0].lower()


async def test_a_server_that_reads_no_further_holds_nobody_up() -> None:
    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        await writer.wait_closed()

    timeouts = Timeouts(connect_s=0.1, idle_s=0.1)
    async with (
        _serving(serve) as port,
        _provider(f"http://127.0.0.1:{port}/v1", timeouts) as provider,
        asyncio.timeout(10),
    ):
        with pytest.raises(ModelError) as failed:
            await _ask(provider, "x" * 30_000_000)
    assert failed.value.kind is ModelErrorKind.TIMEOUT


def _without_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http", "https", "all", "no"):
        for variable in (f"{name}_proxy", f"{name}_proxy".upper()):
            monkeypatch.delenv(variable, raising=False)


@asynccontextmanager
async def _serving(serve: Serve) -> AsyncGenerator[int]:
    async def once(reader: StreamReader, writer: StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except asyncio.IncompleteReadError:
            pass  # the client has gone
        finally:
            writer.close()

    server = await asyncio.start_server(once, "127.0.0.1", limit=2**20)
    async with server:
        yield server.sockets[0].getsockname()[1]


def _endpoint(url: str, key: str = "k3y") -> Endpoint:
    return Endpoint(url, SecretStr(key), "scripted", "custom", "test", "HERMES_API_KEY")


@asynccontextmanager
async def _provider(url: str, timeouts: Timeouts | None = None) -> AsyncGenerator[Provider]:
    endpoint = _endpoint(url, "key")
    wire, retries = ChatCompletions(), RetryPolicy(max_retries=0)
    async with Provider(endpoint, wire, retries, timeouts) as provider:
        yield provider


async def _ask(provider: Provider, text: str) -> str:
    asked = encoded({"role": "user", "content": text})
    async with provider.stream(ModelRequest("scripted", [asked], b"[]")) as events:
        answers = [event async for event in events]
    assert isinstance(answers[-1], ModelMessage)
    return answers[-1].text


async def _request(reader: StreamReader) -> tuple[bytes, bytes]:
    """The first line of the next request, and its body."""
    lines = (await reader.readuntil(b"\r\n\r\n")).splitlines()
    fields = dict(line.lower().split(b": ", 1) for line in lines[1:] if line)
    return lines[0], await reader.readexactly(int(fields[b"content-length"]))


def _answer(writer: StreamWriter) -> None:
    head = ("HTTP/1.1 200 OK", "Content-Type: application/json", f"Content-Length: {len(_ANSWER)}")
    writer.write("\r\n".join([*head, "", ""]).encode() + _ANSWER)
