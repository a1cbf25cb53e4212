"""The gateway's HTTP port: who may use it, its limits, and webhooks."""

import asyncio
import gzip
import hashlib
import hmac
import io
import os
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from prometheus_client import CollectorRegistry
from pydantic import SecretStr

from gateway_service.accounts.checks import checks
from gateway_service.config import GatewayConfig
from gateway_service.messages import MessageEvent, Source
from gateway_service.metrics import GatewayMetrics
from gateway_service.platforms.api_config import ApiConfig
from gateway_service.platforms.base import Received, WebhookRequest, WebhookResult
from gateway_service.servicer.http import listener
from gateway_service.servicer.http.exchange import Call, EventStream, Reply
from gateway_service.servicer.http.listener import HttpListener, Routes, Waits
from gateway_service.servicer.http.webhooks import Webhook, Webhooks
from gateway_service.storage import inbox, migrations
from gateway_service.storage.inbox import Account
from gateway_service.turns.inbox import Inbox
from services.clock import SystemClock
from services.config.settings import ConfigError, load_settings
from services.database import Database
from services.database.migrations import prepare
from services.errors import DatabaseUnavailable
from services.lifecycle import Workers
from services.redaction.redactor import Redactor
from services.telemetry.metrics import Meter
from tests.fakes.model import answers
from tests.integration.http_parts import KEY, api, until, until_served
from tests.support.memory import Memory
from tests.support.ports import free_port

HELLO = answers({"text": "Hello!"})
QUESTION = {"messages": [{"role": "user", "content": "Hi"}]}
CHAT = "/v1/chat/completions"
SECRET = b"webhook secret"


async def test_64_connections_at_once(tmp_path: Path) -> None:
    async with api(tmp_path, answers({"text": "Hello!", "latency_s": 0.2})) as running:
        got = await asyncio.gather(*(running.post(CHAT, QUESTION) for _ in range(64)))
        assert {status for status, _ in got} == {200}


async def test_more_requests_than_the_limit_are_refused(tmp_path: Path) -> None:
    script = answers({"text": "Hello!", "latency_s": 0.5})
    async with api(tmp_path, script, API_SERVER_MAX_REQUESTS="2") as running:
        first = [asyncio.create_task(running.post(CHAT, QUESTION)) for _ in range(2)]
        await running.model.until(lambda: len(running.model.requests) == 2)
        async with running.http.post(CHAT, json=QUESTION) as refused:
            assert (refused.status, refused.headers["Retry-After"]) == (429, "1")
            assert (await refused.json())["error"]["type"] == "rate_limit_error"
        assert [status for status, _ in await asyncio.gather(*first)] == [200, 200]
        assert (await running.post(CHAT, QUESTION))[0] == 200


async def test_bodies_that_are_refused(tmp_path: Path) -> None:
    async with api(tmp_path, HELLO) as running:
        big = b"x" * (listener.MAX_BODY_BYTES + 1)
        as_json = {"Content-Type": "application/json"}
        async with running.http.post(CHAT, data=io.BytesIO(big), headers=as_json) as response:
            assert response.status == 413
            assert (await response.json())["error"]["message"]

        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(listener.MAX_BODY_BYTES // 65_536 + 2):
                yield b"x" * 65_536

        async with running.http.post(CHAT, data=pieces(), headers=as_json) as response:
            assert response.status == 413
        packed = {**as_json, "Content-Encoding": "gzip"}
        bomb = gzip.compress(bytes(200_000_000), 1)
        memory = await asyncio.to_thread(Memory, os.getpid())
        async with running.http.post(CHAT, data=io.BytesIO(bomb), headers=packed) as response:
            assert response.status == 413
        assert await asyncio.to_thread(memory.grown_mib) < 100
        async with running.http.post(CHAT, data=b"{}") as response:
            assert response.status == 415
        async with running.http.post(CHAT, data=b"{", headers=as_json) as response:
            assert response.status == 400
        deep = b'{"messages": ' + b"[" * 100_000
        async with running.http.post(CHAT, data=deep, headers=as_json) as response:
            assert response.status == 400
        assert running.model.requests == []


async def test_slow_clients_are_closed(tmp_path: Path) -> None:
    config = ApiConfig(port=free_port())
    async with served(tmp_path, config, {"x": Signed}, waits=Waits(read_s=0.3)):
        await until_served(config.port)
        head = "POST /webhooks/x HTTP/1.1\r\nHost: x\r\n"
        answer = await exchange(config.port, f"{head}Content-Length: 100\r\n\r\n{{")
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert await exchange(config.port, head) == b""
        assert await exchange(config.port, "") == b""


async def test_webhooks_are_limited_to_what_can_be_held(tmp_path: Path) -> None:
    config = ApiConfig(port=free_port())
    head = b"POST /webhooks/x HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n"
    async with served(tmp_path, config, {"x": Signed}), AsyncExitStack() as stack:
        await until_served(config.port)
        waiting: list[asyncio.StreamWriter] = []
        for _ in range(listener.MAX_WEBHOOKS):
            _, writer = await asyncio.open_connection("127.0.0.1", config.port)
            stack.callback(writer.close)
            writer.write(head)
            waiting.append(writer)
        http = await stack.enter_async_context(aiohttp.ClientSession())
        url = f"http://127.0.0.1:{config.port}/webhooks/x"
        refused = await answered(http, url, 429)
        assert refused["Retry-After"] == "1"
        for writer in waiting:
            writer.write(b"x")
        await answered(http, url, 401)
        unknown = f"http://127.0.0.1:{config.port}/webhooks/nobody"
        await answered(http, unknown, 404)


async def answered(http: aiohttp.ClientSession, url: str, status: int) -> Mapping[str, str]:
    """The headers of the first answer with a status."""
    async with asyncio.timeout(10):
        while True:
            async with http.post(url) as response:
                if response.status == status:
                    return dict(response.headers)


async def exchange(port: int, sent: str) -> bytes:
    """What the port says up to its end to what was sent."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(sent.encode())
        async with asyncio.timeout(10):
            return await reader.read()
    finally:
        writer.close()


async def test_pages_of_other_origins(tmp_path: Path) -> None:
    page, other = "http://localhost:3000", "http://evil.example"
    async with api(tmp_path, HELLO, API_SERVER_CORS_ORIGINS=page) as running:
        async with running.http.options(CHAT, headers={"Origin": page}) as response:
            assert response.headers["Access-Control-Allow-Origin"] == page
        async with running.http.options(CHAT, headers={"Origin": other}) as response:
            assert "Access-Control-Allow-Origin" not in response.headers
        async with running.http.post(CHAT, json=QUESTION, headers={"Origin": page}) as response:
            assert response.headers["Access-Control-Allow-Origin"] == page


async def test_without_a_key(tmp_path: Path) -> None:
    free = {"API_SERVER_KEY": "", "API_SERVER_ENABLED": "true", "API_SERVER_ALLOW_WITHOUT_KEY": "1"}
    async with api(tmp_path, HELLO, **free) as running:
        assert (await running.post(CHAT, QUESTION))[0] == 200
        assert (await running.post(CHAT, QUESTION, Origin="http://evil.example"))[0] == 403
        assert (await running.post(CHAT, QUESTION, Host="evil.example:8642"))[0] == 403


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"ENABLED": "true"}, "set API_SERVER_KEY"),
        (
            {"ENABLED": "true", "ALLOW_WITHOUT_KEY": "true", "HOST": "0.0.0.0"},
            "must be a loopback address",
        ),
        ({"KEY": "short", "HOST": "0.0.0.0"}, "at least 16 characters"),
    ],
)
def test_it_is_not_served_openly(tmp_path: Path, environ: dict[str, str], message: str) -> None:
    given = {f"API_SERVER_{name}": value for name, value in environ.items()}
    settings = load_settings({}, {"HERMES_HOME": str(tmp_path), **given})
    with pytest.raises(ConfigError, match=message):
        settings.load(GatewayConfig)


async def test_a_port_that_is_in_use(tmp_path: Path) -> None:
    port = free_port()
    other = await asyncio.start_server(lambda _, __: None, "127.0.0.1", port)
    async with other, served(tmp_path, ApiConfig(port=port), waits=Waits(retry_s=0.05)) as serving:
        await until(lambda: "in use" in serving.unready())
        other.close()
        await until(lambda: serving.port == port)
        assert serving.unready() == ""


async def slow_stream(_: Call) -> EventStream:
    async def chunks() -> AsyncGenerator[bytes]:
        yield b"data: 1\n\n"
        await asyncio.sleep(0.2)
        yield b"data: 2\n\n"

    return EventStream(chunks(), {"X-Of": "handler"})


async def broken_stream(_: Call) -> EventStream:
    async def chunks() -> AsyncGenerator[bytes]:
        yield b"data: 1\n\n"
        raise ValueError("a bug")

    return EventStream(chunks(), {})


async def broken(_: Call) -> Reply:
    raise ValueError("a bug")


ROUTES: Routes = {
    ("GET", "/v1/slow"): slow_stream,
    ("GET", "/v1/broken-stream"): broken_stream,
    ("GET", "/v1/broken"): broken,
}


async def test_quiet_streams_and_bugs(tmp_path: Path) -> None:
    config = ApiConfig(port=free_port(), enabled=True, key=SecretStr(KEY))
    key = {"Authorization": f"Bearer {KEY}"}
    async with (
        served(tmp_path, config, waits=Waits(silence_s=0.05), routes=ROUTES) as serving,
        aiohttp.ClientSession(f"http://127.0.0.1:{config.port}", headers=key) as http,
    ):
        await until_served(config.port)
        async with http.get("/v1/slow") as response:
            assert response.headers["X-Of"] == "handler"
            assert response.headers["Content-Type"].startswith("text/event-stream")
            first, *comments, last = (await response.read()).strip().split(b"\n\n")
            assert (first, last) == (b"data: 1", b"data: 2")
            assert comments
            assert set(comments) == {b": "}
        async with http.get("/v1/broken") as response:
            assert response.status == 500
            assert (await response.json())["error"]["type"] == "server_error"
        async with http.get("/v1/broken-stream") as response:
            first, last, _ = (await response.read()).split(b"\n\n")
            assert first == b"data: 1"
            assert b'"type":"server_error"' in last
        serving.drain()
        async with http.get("/v1/slow") as response:
            assert response.status == 503


class Signed:
    """A platform that signs what it sends."""

    def __init__(self, database: Database) -> None:
        self.asked: list[WebhookRequest] = []
        self.parsed = 0
        self._database = database

    async def webhook(self, request: WebhookRequest) -> WebhookResult:
        self.asked.append(request)
        if request.method == "GET":
            return WebhookResult(body=request.query["challenge"].encode())
        if not hmac.compare_digest(request.headers.get("x-signature", ""), sign(request.body)):
            return WebhookResult(401, b"bad signature")
        if request.body == b"down":
            raise DatabaseUnavailable("the database is away")
        if request.body == b"broken":
            raise ValueError("a bug")
        self.parsed += 1
        text = request.body.decode()
        return WebhookResult(received=Received([MessageEvent(text, Source("signed", "1"), text)]))

    async def rows(self) -> Sequence[str]:
        """The ids of what was stored."""
        waiting = await self._database.read(
            lambda conn: inbox.waiting_of_lane(conn, "signed", "1", "agent:main:signed:dm:1", 9)
        )
        return [each.event.event_id for each in waiting]


def sign(body: bytes) -> str:
    return hmac.new(SECRET, body, hashlib.sha256).hexdigest()


@asynccontextmanager
async def served(
    folder: Path,
    config: ApiConfig,
    platforms: dict[str, Any] | None = None,
    waits: Waits | None = None,
    routes: Routes | None = None,
) -> AsyncGenerator[HttpListener]:
    """A port without the API."""
    settings = load_settings({}, {"HERMES_HOME": str(folder)})
    metrics, clock = GatewayMetrics.create(Meter(CollectorRegistry())), SystemClock()
    async with Database(f"sqlite:///{folder}/gateway.db", "gateway", clock) as database:
        await prepare(database, migrations)
        stored = Inbox(database, clock, metrics, settings.load(GatewayConfig), Redactor())
        named = {
            name: Webhook(platform(database), Account("default", name, "1"))
            for name, platform in (platforms or {}).items()
        }
        webhooks = Webhooks(stored, metrics, named)
        serving = HttpListener(config, "default", routes or {}, webhooks, waits or Waits())
        async with Workers() as workers:
            workers.start("listener", serving.run())
            yield serving


async def test_webhooks(tmp_path: Path) -> None:
    made: list[Signed] = []

    def platform(database: Database) -> Signed:
        made.append(Signed(database))
        return made[0]

    config = ApiConfig(port=free_port(), public_url="https://hermes.example/")
    async with (
        served(tmp_path, config, {"signed": platform}) as serving,
        aiohttp.ClientSession(f"http://127.0.0.1:{config.port}") as http,
    ):
        await until_served(config.port)
        [signed] = made

        async def send(body: bytes, signature: str, path: str = "/webhooks/signed") -> int:
            signed_by = {"X-Signature": signature}
            async with http.post(path, data=io.BytesIO(body), headers=signed_by) as response:
                return response.status

        async with http.get("/webhooks/signed?challenge=42") as response:
            assert await response.text() == "42"
        assert await send(b"one", sign(b"one")) == 200
        assert await signed.rows() == ["one"]
        assert await send(b"one", sign(b"one"), "/webhooks/signed/a/b?c=d") == 200
        assert signed.asked[-1].url == "https://hermes.example/webhooks/signed/a/b?c=d"
        assert await signed.rows() == ["one"]
        assert await send(b"two", sign(b"one")) == 401
        assert await send(b"down", sign(b"down")) == 503
        assert await send(b"broken", sign(b"broken")) == 500
        assert await send(b"one", sign(b"one"), "/webhooks/other") == 404
        assert await send(b"x" * (listener.MAX_WEBHOOK_BYTES + 1), "") == 413
        assert await signed.rows() == ["one"]
        assert signed.parsed == 2
        async with http.post(CHAT, json=QUESTION) as response:
            assert response.status == 404
        assert serving.unready() == ""


async def test_doctor_tells_where_it_is(tmp_path: Path) -> None:
    port = free_port()
    settings = load_settings(
        {}, {"HERMES_HOME": str(tmp_path), "API_SERVER_KEY": KEY, "API_SERVER_PORT": str(port)}
    )
    assert [str(each.verdict) for each in await checks(settings)] == ["ok"]
    other = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", port)
    async with other:
        [check] = await checks(settings)
        assert (check.verdict, "another program" in check.message) == ("failed", True)
    async with served(tmp_path, ApiConfig(port=port)):
        await until_served(port)
        [check] = await checks(settings)
        assert check.message == f"the API is on 127.0.0.1:{port}"
