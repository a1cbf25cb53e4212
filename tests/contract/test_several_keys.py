"""Several keys of a provider: which is tried, which rests, and for how long."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace
from pydantic import SecretStr

from agent_service.config.endpoints import FallbackEntry, fallbacks
from agent_service.models.access import Keys
from agent_service.models.endpoints import Endpoint, EndpointSettings, configured_endpoint
from agent_service.models.provider import Provider
from agent_service.models.wires.chat_completions import ChatCompletions
from agent_service.records.model import ModelMessage
from agent_service.records.model_errors import ModelErrorKind
from tests.contract.models import NO_RETRIES, answer, ask, endpoint_at, failure
from tests.fakes.clock import ManualClock
from tests.fakes.model import FakeModel, answers, fake_model

KEYS = ("sk-first-0123456789", "sk-second-0123456789", "sk-third-0123456789")
HI = {"text": "Hi."}


def several(url: str) -> Endpoint:
    first, *more = map(SecretStr, KEYS)
    return replace(endpoint_at(url), api_key=first, more_keys=tuple(more))


@asynccontextmanager
async def calling(
    *replies: Mapping[str, Any], clock: ManualClock | None = None
) -> AsyncGenerator[tuple[Provider, FakeModel]]:
    async with fake_model(answers(*replies)) as server:
        endpoint = several(server.url)
        keys = Keys(endpoint, clock or ManualClock())
        async with Provider(endpoint, ChatCompletions(), NO_RETRIES, access=keys) as model:
            yield model, server


def used(server: FakeModel) -> list[int]:
    """The numbers of the keys that requests came with."""
    sent = [request.headers["authorization"].removeprefix("Bearer ") for request in server.requests]
    return [KEYS.index(key) for key in sent]


@pytest.mark.parametrize("status", [401, 402, 429])
async def test_the_next_key_is_tried_where_one_is_refused_and_stays(
    status: int, caplog: pytest.LogCaptureFixture
) -> None:
    refusal = {"status": status, "error": {"error": {"message": f"not with {KEYS[0]}"}}}
    async with calling(refusal, HI, HI) as (model, server):
        (*_, last) = await ask(model)
        await ask(model)
    assert isinstance(last, ModelMessage)
    assert used(server) == [0, 1, 1]
    assert "key 1 of 3 for custom rests" in caplog.text
    assert not any(key in caplog.text for key in KEYS)


@pytest.mark.parametrize(
    ("refusal", "rest_s"),
    [
        ({"status": 429, "headers": {"retry-after": "7"}}, 7),
        ({"status": 429}, 60),
        ({"status": 402}, 600),
        ({"status": 401, "headers": {"retry-after": "0"}}, 1),
        ({"status": 429, "headers": {"retry-after": "999999"}}, 3600),
    ],
)
async def test_a_key_rests_as_long_as_the_provider_says(
    refusal: Mapping[str, Any], rest_s: float
) -> None:
    clock = ManualClock()
    async with calling(refusal, HI, HI, HI, clock=clock) as (model, server):
        await answer(model)
        await clock.advance(rest_s - 0.5)
        await answer(model)
        await clock.advance(0.5)
        await answer(model)
    assert used(server) == [0, 1, 1, 0]


async def test_what_is_no_fault_of_the_key_goes_to_no_other() -> None:
    async with calling({"status": 503}) as (model, server):
        failed = await failure(model)
    assert failed.kind is ModelErrorKind.OVERLOADED
    assert used(server) == [0]


async def test_when_all_rest_the_call_fails_and_the_one_that_rests_least_is_next() -> None:
    limits = [{"status": 429, "headers": {"retry-after": f"{s}"}} for s in (30, 10, 20)]
    async with calling(*limits, HI) as (model, server):
        failed = await failure(model)
        await answer(model)
    assert failed.kind is ModelErrorKind.RATE_LIMIT
    assert not any(key in str(failed) for key in KEYS)
    assert used(server) == [0, 1, 2, 1]


def test_another_provider_of_the_chain_gets_no_keys_but_its_own() -> None:
    one, two, three = map(SecretStr, KEYS)
    main = EndpointSettings(keys={"openrouter": (one, two), "openai": (three,)})
    found = fallbacks([FallbackEntry(model="m", provider="openai")], main, lambda name: "")
    (endpoint,) = (configured_endpoint(each.endpoint) for each in found)
    assert endpoint is not None
    assert (endpoint.provider, endpoint.api_key, endpoint.more_keys) == ("openai", three, ())


def test_keys_are_those_of_the_settings_each_once() -> None:
    one, two, three = map(SecretStr, KEYS)
    settings = EndpointSettings(keys={"openrouter": (two, one, two, three)})
    endpoint = configured_endpoint(settings)
    assert endpoint is not None
    assert (endpoint.api_key, endpoint.more_keys) == (two, (one, three))
    alone = configured_endpoint(EndpointSettings(keys={"anthropic": (three,)}))
    assert alone is not None
    assert (alone.provider, alone.api_key, alone.more_keys) == ("anthropic", three, ())
    assert not any(key in repr(endpoint) for key in KEYS)


@pytest.mark.parametrize(
    ("url", "provider"),
    [
        ("https://openrouter.ai/api/v1", "openrouter"),
        ("https://eu.api.openai.com/v1", "openai"),
        ("https://api.anthropic.com/v1", "anthropic"),
    ],
)
def test_keys_of_a_provider_are_used_at_its_base_url_unless_another_is_set(
    url: str, provider: str
) -> None:
    one, two, three = map(SecretStr, KEYS)
    settings = EndpointSettings(base_url=url, keys={provider: (one, two)})
    endpoint = configured_endpoint(settings)
    assert endpoint is not None
    assert (endpoint.provider, endpoint.api_key, endpoint.more_keys) == (provider, one, (two,))
    assert endpoint.key_name == f"{provider.upper()}_API_KEY"
    other = configured_endpoint(replace(settings, api_key=three))
    assert other is not None
    assert (other.api_key, other.more_keys, other.key_name) == (three, (), "HERMES_API_KEY")
