"""Which endpoint the settings choose."""

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace
from pydantic import SecretStr

from agent_service.models.endpoint_models import with_listed_model
from agent_service.models.endpoints import (
    ANTHROPIC_MODEL,
    ANTHROPIC_URL,
    OPENAI_URL,
    OPENROUTER_MODEL,
    OPENROUTER_URL,
    Api,
    Endpoint,
    EndpointSettings,
    configured_endpoint,
)
from agent_service.records.model_errors import InvalidEndpoint, ModelError
from tests.fakes.model import fake_model
from tests.fakes.model_script import Script
from tests.fakes.model_server import Exchange, ModelServer

ROUTER, OPENAI, OWN = SecretStr("or-key"), SecretStr("oa-key"), SecretStr("own-key")
BOTH = EndpointSettings(keys={"openrouter": (ROUTER,), "openai": (OPENAI,)})
RULES = [{"steps": [{"text": "Hi"}]}]


def chosen(settings: EndpointSettings) -> Endpoint:
    endpoint = configured_endpoint(settings)
    assert endpoint is not None
    return endpoint


def test_nothing_set_is_nothing_chosen() -> None:
    assert configured_endpoint(EndpointSettings()) is None
    blank = EndpointSettings(base_url=" ", api_key=OWN, keys={"openai": [SecretStr(" ")]})
    assert configured_endpoint(blank) is None


def test_openrouter_goes_before_openai() -> None:
    assert chosen(BOTH) == Endpoint(
        OPENROUTER_URL,
        ROUTER,
        OPENROUTER_MODEL,
        "openrouter",
        "OPENROUTER_API_KEY",
        "OPENROUTER_API_KEY",
    )


def test_the_provider_may_be_named() -> None:
    settings = EndpointSettings(provider="openai", keys=BOTH.keys, model="openai/gpt-x")
    endpoint = chosen(settings)
    assert (endpoint.base_url, endpoint.api_key, endpoint.model) == (OPENAI_URL, OPENAI, "gpt-x")


def test_a_base_url_goes_before_every_key() -> None:
    settings = EndpointSettings(
        base_url="http://10.0.0.5:8000/v1/", api_key=OWN, model="m", keys=BOTH.keys
    )
    assert chosen(settings) == Endpoint(
        "http://10.0.0.5:8000/v1", OWN, "m", "custom", "model.base_url", "HERMES_API_KEY"
    )


@pytest.mark.parametrize(
    ("url", "own", "provider", "key"),
    [
        ("https://openrouter.ai/api/v1", SecretStr(""), "openrouter", ROUTER),
        ("https://api.openai.com/v1", SecretStr(""), "openai", OPENAI),
        ("https://api.openai.com/v1", OWN, "openai", OWN),
        ("https://openrouter.ai.evil.example/v1", SecretStr(""), "custom", SecretStr("")),
        ("https://notopenai.com/v1", SecretStr(""), "custom", SecretStr("")),
    ],
)
def test_a_providers_key_goes_to_that_provider_only(
    url: str, own: SecretStr, provider: str, key: SecretStr
) -> None:
    settings = EndpointSettings(base_url=url, api_key=own, model="m", keys=BOTH.keys)
    endpoint = chosen(settings)
    assert (endpoint.provider, endpoint.api_key) == (provider, key)


@pytest.mark.parametrize(
    "url",
    [
        "localhost:8000",
        "ftp://host/v1",
        "https://",
        "http://host:99999/v1",
        "http://a b/v1",
        "[::1",
    ],
)
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(InvalidEndpoint, match="HERMES_BASE_URL is not a URL"):
        configured_endpoint(EndpointSettings(base_url=url))


@pytest.mark.parametrize("key", ["two words", "line\nbreak", "schlüssel"])
def test_what_is_no_key_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(InvalidEndpoint, match="OPENAI_API_KEY") as caught:
        configured_endpoint(EndpointSettings(keys={"openai": [SecretStr(key)]}))
    assert key not in str(caught.value)


def test_a_key_is_in_no_representation() -> None:
    assert "or-key" not in f"{chosen(BOTH)!r} {BOTH!r}"


async def test_the_model_is_asked_for_where_none_is_set() -> None:
    script = {"models": ["text-embedding-3", "qwen3", "llama4"], "rules": RULES}
    async with fake_model(script) as server:
        endpoint = await with_listed_model(chosen(EndpointSettings(base_url=server.url)))
    assert endpoint.model == "qwen3"


async def test_the_query_of_a_base_url_stays_behind_the_path_of_the_listing() -> None:
    seen: list[Exchange] = []
    server = ModelServer(Script.parse({"models": ["a"], "rules": RULES}), seen.append)
    async with server.listen() as url:
        await with_listed_model(chosen(EndpointSettings(base_url=f"{url}?api-version=1")))
    assert seen[0].path == "/v1/models?api-version=1"


async def test_an_endpoint_without_models_says_what_to_set() -> None:
    async with answering(404, {}) as url:
        with pytest.raises(InvalidEndpoint, match="lists no models: set HERMES_MODEL"):
            await with_listed_model(chosen(EndpointSettings(base_url=url)))


async def test_an_endpoint_where_nothing_listens_says_so(free_port: int) -> None:
    settings = EndpointSettings(base_url=f"http://localhost:{free_port}/v1")
    with pytest.raises(ModelError, match="nothing listens there; start the server"):
        await with_listed_model(chosen(settings))


@pytest.mark.parametrize("status", [401, 403])
async def test_an_endpoint_that_refuses_the_key_says_which(status: int) -> None:
    async with answering(status, {"error": {"message": "no such key"}}) as url:
        with pytest.raises(ModelError) as refused:
            await with_listed_model(chosen(EndpointSettings(base_url=url, api_key=OWN)))
        with pytest.raises(ModelError, match="wants a key: set HERMES_API_KEY"):
            await with_listed_model(chosen(EndpointSettings(base_url=url)))
    assert "refused the key: check HERMES_API_KEY. It says: no such key" in str(refused.value)


async def test_an_endpoint_that_fails_says_what_it_said() -> None:
    async with answering(503, {"error": {"message": "Loading model"}}) as url:
        with pytest.raises(ModelError, match=r"HTTP 503.*Loading model"):
            await with_listed_model(chosen(EndpointSettings(base_url=url)))


@asynccontextmanager
async def answering(status: int, document: object) -> AsyncGenerator[str]:
    """A server that answers everything with this; gives its base URL."""
    body = json.dumps(document).encode()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n%b" % (status, len(body), body))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


@pytest.fixture
def free_port() -> Iterator[int]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def test_anthropics_key_chooses_its_own_api() -> None:
    settings = EndpointSettings(keys={"anthropic": (OWN,)}, model="anthropic/claude-sonnet-4.5")
    endpoint = chosen(settings)
    assert (endpoint.base_url, endpoint.api_key, endpoint.api) == (ANTHROPIC_URL, OWN, Api.MESSAGES)
    assert (endpoint.model, endpoint.provider) == ("claude-sonnet-4-5", "anthropic")
    assert chosen(EndpointSettings(keys={"anthropic": (OWN,)})).model == ANTHROPIC_MODEL
    both = EndpointSettings(keys={"anthropic": (OWN,), "openai": (OPENAI,)})
    assert chosen(both).provider == "openai"
    assert chosen(replace(both, provider="anthropic")).provider == "anthropic"


@pytest.mark.parametrize(
    ("said", "api"),
    [
        ("", Api.CHAT_COMPLETIONS),
        ("responses", Api.RESPONSES),
        ("anthropic_messages", Api.CHAT_COMPLETIONS),
    ],
)
def test_openai_itself_speaks_what_is_said_where_it_can(said: str, api: Api) -> None:
    endpoint = chosen(EndpointSettings(keys={"openai": (OPENAI,)}, api=said))
    assert (endpoint.provider, endpoint.base_url, endpoint.api) == ("openai", OPENAI_URL, api)


@pytest.mark.parametrize(
    ("url", "said", "base_url", "api"),
    [
        ("https://x/d/chat/completions/?v=1#a", "", "https://x/d?v=1", Api.CHAT_COMPLETIONS),
        ("https://x/v1/responses?v=1", "", "https://x/v1?v=1", Api.RESPONSES),
        ("https://x/anthropic/?v=1", "", "https://x/anthropic?v=1", Api.MESSAGES),
        ("https://api.anthropic.com/v1", "", "https://api.anthropic.com", Api.MESSAGES),
        ("https://x.example/v1/messages", "", "https://x.example", Api.MESSAGES),
        ("https://x.example/v1", "anthropic_messages", "https://x.example", Api.MESSAGES),
        ("https://x.example/v1", "", "https://x.example/v1", Api.CHAT_COMPLETIONS),
        ("https://x.example/v1", "responses", "https://x.example/v1", Api.RESPONSES),
        (
            "https://api.anthropic.com/v1",
            "chat_completions",
            "https://api.anthropic.com/v1",
            Api.CHAT_COMPLETIONS,
        ),
    ],
)
def test_what_is_spoken_is_said_or_seen_from_the_url(
    url: str, said: str, base_url: str, api: Api
) -> None:
    endpoint = chosen(EndpointSettings(base_url=url, model="m", api=said))
    assert (endpoint.base_url, endpoint.api) == (base_url, api)


async def test_a_model_that_speaks_anthropics_way_is_listed_with_its_headers() -> None:
    script = {"models": ["claude-x"], "rules": RULES}
    seen: list[Exchange] = []
    async with ModelServer(Script.parse(script), seen.append).listen() as url:
        settings = EndpointSettings(base_url=url, api_key=OWN, api="anthropic_messages")
        assert (await with_listed_model(chosen(settings))).model == "claude-x"
    headers = seen[0].headers
    assert (headers["x-api-key"], headers["anthropic-version"]) == ("own-key", "2026-10-21")
    assert "authorization" not in headers


@pytest.mark.parametrize(
    ("provider", "base_url", "expected"),
    [
        ("nous", "", "nous"),
        ("codex", "", "codex"),
        ("openai-codex", "https://chatgpt.com/backend-api/codex", "codex"),
        ("nous", "https://inference-api.nousresearch.com/v1", "nous"),
        ("nous", "http://127.0.0.1:8000/v1", ""),
        ("codex", "https://chatgpt.com.example.org/v1", ""),
        ("openrouter", "", ""),
    ],
)
def test_a_login_is_used_only_where_it_belongs(provider: str, base_url: str, expected: str) -> None:
    settings = replace(BOTH, provider=provider, base_url=base_url, model="m")
    endpoint = chosen(settings)
    assert endpoint.login == expected
    assert not (expected and endpoint.api_key.get_secret_value())


def test_codex_is_where_the_settings_say() -> None:
    settings = EndpointSettings(provider="codex", codex_base_url="https://proxy.example.org/codex")
    endpoint = chosen(settings)
    assert (endpoint.base_url, endpoint.api) == ("https://proxy.example.org/codex", Api.RESPONSES)


@pytest.mark.parametrize(
    ("url", "is_local"),
    [
        ("http://127.0.0.1:8080/v1", True),
        ("http://[::1]:8080/v1", True),
        ("http://localhost:11434/v1", True),
        ("http://192.168.1.7:1234/v1", True),
        ("http://100.101.102.103:8000/v1", True),
        ("http://ollama:11434/v1", True),
        ("http://host.docker.internal:11434/v1", True),
        ("http://box.local/v1", True),
        ("https://llm.example.org/v1", False),
        ("http://8.8.8.8/v1", False),
        ("https://openrouter.ai/api/v1", False),
    ],
)
def test_a_server_of_one_s_own_is_known_by_its_address(url: str, is_local: bool) -> None:
    found = configured_endpoint(EndpointSettings(base_url=url))
    assert found is not None
    assert found.is_local is is_local
