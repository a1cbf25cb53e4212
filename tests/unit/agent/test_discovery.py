"""Finding model servers on this machine, and nothing else that listens there."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from pydantic import SecretStr

from agent_service.models.discovery import (
    LocalServer,
    ServedModel,
    chat_models,
    discover_local,
    served_model,
)
from agent_service.models.endpoints import missing_endpoint
from agent_service.models.proxies import is_loopback
from tests.fakes.model import fake_model

RULES = [{"steps": [{"text": "Hi"}]}]


@asynccontextmanager
async def listening(answer: bytes | None) -> AsyncGenerator[int]:
    """Listen, answer every request with these bytes, or never."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if answer is not None:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(answer)
            else:
                await reader.read()
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


def http(body: bytes, status: int = 200) -> bytes:
    return b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n%b" % (status, len(body), body)


def port_of(url: str) -> int:
    return int(url.removesuffix("/v1").rpartition(":")[2])


async def test_servers_are_found_side_by_side_in_order() -> None:
    async with (
        listening(None) as silent,
        fake_model({"models": ["one"], "rules": RULES}) as first,
        listening(http(b"<html>a web site</html>")) as site,
        fake_model({"models": ["two", "three"], "rules": RULES}) as second,
    ):
        ports = {"silent": silent, "A": port_of(first.url), "site": site, "B": port_of(second.url)}
        async with asyncio.timeout(5):
            found = await discover_local(ports, timeout_s=0.5)
    assert found == (
        LocalServer("A", first.url, ("one",)),
        LocalServer("B", second.url, ("two", "three")),
    )


@pytest.mark.parametrize(
    "answer",
    [
        http(b"<html></html>"),
        http(b'{"status": "ok"}'),
        http(b'{"data": [{"id": "m"}]}', status=401),
        http(b'{"data": [{"id": "m"}]}', status=302),
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"",
        http(b"[" * 100_000),
    ],
)
async def test_what_is_no_model_server_is_passed_over(answer: bytes) -> None:
    async with listening(answer) as port:
        assert await discover_local({"it": port}) == ()


@pytest.mark.parametrize(
    ("listing", "models"),
    [
        ({"object": "list", "data": [{"id": "a"}, {"id": "b"}]}, ("a", "b")),
        ({"data": [{"id": "nomic-Embed-text"}, {"id": "bge-reranker"}, {"id": "a"}]}, ("a",)),
        ({"data": []}, ()),
        ({"data": None}, ()),
        ({"data": [{"id": None}, {"name": "x"}, "y", {"id": ""}]}, ()),
        ([{"id": "a"}], ()),
        ("text", ()),
    ],
)
def test_listings_are_read_leniently(listing: object, models: tuple[str, ...]) -> None:
    assert chat_models(json.dumps(listing).encode()) == models


def test_with_nothing_set_three_lines_say_what_to_set() -> None:
    lines = missing_endpoint("/home/me/.hermes/.env").splitlines()
    assert len(lines) == 3
    assert "/home/me/.hermes/.env" in lines[0]


@pytest.mark.parametrize(
    ("url", "loopback"),
    [
        ("http://127.0.0.1:1234/v1", True),
        ("http://[::1]:1234/v1", True),
        ("http://localhost/v1", True),
        ("http://10.0.0.1/v1", False),
        ("https://localhost.example/v1", False),
    ],
)
def test_loopback_is_recognised(url: str, loopback: bool) -> None:
    assert is_loopback(url) is loopback


def test_a_list_as_codex_has_it_is_read() -> None:
    shown = {"slug": "gpt-a", "visibility": "list"}
    listing = {"models": [shown, {"slug": "gpt-b", "visibility": "hide"}, {"slug": 5}, {}]}
    assert chat_models(json.dumps(listing).encode()) == ("gpt-a",)


@pytest.mark.parametrize(
    ("path", "answer", "tokens"),
    [
        ("/props", {"default_generation_settings": {"n_ctx": 4096}}, 4096),
        ("/api/v0/models", {"data": [{"id": "m", "loaded_context_length": 8192}]}, 8192),
        ("/api/ps", {"models": [{"name": "m", "context_length": 2048}]}, 2048),
        ("/v1/models", {"data": [{"id": "m", "max_model_len": 32768}]}, 32768),
        ("/v1/models", {"data": [{"id": "other", "max_model_len": 32768}]}, 0),
        ("/v1/models", ["odd"], 0),
    ],
    ids=["llama.cpp", "LM Studio", "Ollama", "vLLM", "of another model", "no listing"],
)
async def test_each_kind_of_local_server_tells_how_much_context_there_is(
    path: str, answer: object, tokens: int
) -> None:
    async with serving({path: answer}) as url:
        served = await served_model(f"{url}/v1", SecretStr("key"), "m")
        assert served == ServedModel(tokens, tells_progress=path == "/props")


async def test_ollama_is_made_to_load_the_model_that_is_asked_for() -> None:
    answers: dict[str, object] = {"/api/ps": {"models": []}}

    def load() -> object:
        answers["/api/ps"] = {"models": [{"name": "m", "context_length": 4096}]}
        return {}

    answers["/api/generate"] = load
    async with serving(answers) as url:
        assert (await served_model(f"{url}/v1", SecretStr(""), "m")).window == 4096


@asynccontextmanager
async def serving(answers: dict[str, object]) -> AsyncGenerator[str]:
    """Answer some paths with JSON, and all others with 404."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        found = answers.get(request.split()[1].decode())
        told = found() if callable(found) else found
        writer.write(http(json.dumps(told).encode(), 404 if found is None else 200))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
