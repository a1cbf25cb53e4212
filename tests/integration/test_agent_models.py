"""The model catalogue of a running agent: listed, refreshed into its home, corrected by config."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from hermes.agent.v1 import model_catalog_pb2 as pb
from hermes.agent.v1.model_catalog_pb2_grpc import ModelCatalogServiceStub
from hermes.common.v1.usage_pb2 import Usage
from services.errors import Reason, reason_of
from tests.fakes.model import answers, fake_model
from tests.integration.agent_parts import agent

LISTED = {
    "id": "new/model-9",
    "context_length": 300_000,
    "pricing": {"prompt": "0.000001", "completion": "0.000002"},
}
USAGE = {
    "prompt_tokens": 1_000,
    "completion_tokens": 100,
    "prompt_tokens_details": {"cached_tokens": 600, "cache_write_tokens": 100},
    "completion_tokens_details": {"reasoning_tokens": 40},
}
PRICE = "{input: 2, output: 10, cache_read: 0.2, cache_write: 2.5}"


@dataclass
class Listing:
    """A server that answers every request with this."""

    body: bytes = b""
    status: int = 200
    requests: list[str] = field(default_factory=list[str])
    url: str = ""

    @asynccontextmanager
    async def listen(self) -> AsyncGenerator["Listing"]:
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        async with server:
            self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/models"
            yield self

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.requests.append(head.split(b" ", 2)[1].decode())
        status = f"HTTP/1.1 {self.status} Told\r\nConnection: close\r\n"
        writer.write(f"{status}Content-Length: {len(self.body)}\r\n\r\n".encode() + self.body)
        await writer.drain()
        writer.close()


async def configure(home: Path, text: str) -> None:
    await asyncio.to_thread((home / "config.yaml").write_text, text, "utf-8")


async def test_models_are_listed_and_refreshed_into_the_home(tmp_path: Path) -> None:
    body = json.dumps({"data": [LISTED]}).encode()
    async with fake_model(answers({"text": "Hi."})) as model, Listing(body).listen() as listing:
        await configure(
            tmp_path,
            f"model: {{catalog_url: '{listing.url}'}}\nmodels: {{new/model-9: {{window: 7}}}}\n",
        )
        async with agent(tmp_path, model.url) as client:
            stub = ModelCatalogServiceStub(client.channels.to("agent"))
            before = await stub.ListModels(pb.ListModelsRequest(query="SONNET claude"))
            assert listing.requests == []
            refreshed = await stub.RefreshModels(pb.RefreshModelsRequest())
            listing.status = 500
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await stub.RefreshModels(pb.RefreshModelsRequest())
            after = await stub.ListModels(pb.ListModelsRequest(query="new/"))
    assert {"anthropic/claude-sonnet-4.5"} <= {info.model_id for info in before.models}
    assert all("sonnet" in info.model_id for info in before.models)
    assert (before.default_model, refreshed.model_count) == ("scripted", 1)
    assert reason_of(refused.value) is Reason.SERVICE_UNAVAILABLE
    (found,) = after.models
    assert (found.window_tokens, found.price.input_micro_usd) == (7, 1_000_000)
    assert found.source == "config"
    kept = await asyncio.to_thread((tmp_path / "state" / "models.json").stat)
    assert kept.st_mode & 0o777 == 0o600


async def test_the_endpoint_s_own_models_come_first(tmp_path: Path) -> None:
    await configure(tmp_path, "models: {zulu: {window: 7}}\n")
    script = {**answers({"text": "Hi."}), "models": ["zulu", "claude-sonnet-4.5", "text-embed"]}
    asked = pb.ListModelsRequest(include_endpoint=True)
    async with fake_model(script) as model, agent(tmp_path, model.url) as client:
        stub = ModelCatalogServiceStub(client.channels.to("agent"))
        found = (await stub.ListModels(asked)).models
        (sonnet,) = (
            await stub.ListModels(
                pb.ListModelsRequest(query="claude-sonnet-4.5", include_endpoint=True)
            )
        ).models[:1]
    assert [info.model_id for info in found[:2]] == ["zulu", "claude-sonnet-4.5"]
    assert [info.source for info in found[:3]] == ["endpoint", "endpoint", "packaged"]
    assert found[0].window_tokens == 7
    assert (sonnet.source, sonnet.price.input_micro_usd > 0) == ("endpoint", True)
    ids = [info.model_id for info in found]
    assert len(ids) == len(set(ids))


async def test_models_are_listed_although_the_endpoint_is_away(tmp_path: Path) -> None:
    async with fake_model(answers({"text": "Hi."})) as model:
        url = model.url
    async with agent(tmp_path, url) as client:
        stub = ModelCatalogServiceStub(client.channels.to("agent"))
        found = await stub.ListModels(pb.ListModelsRequest(include_endpoint=True))
    assert len(found.models) > 20
    assert "nothing listens there" in found.endpoint_problem


@pytest.mark.parametrize(
    ("reported", "cost"), [({}, 300 * 2 + 600 * 0.2 + 100 * 2.5 + 100 * 10), ({"cost": 0.5}, 5e5)]
)
async def test_a_call_costs_what_the_provider_or_else_the_catalogue_says(
    tmp_path: Path, reported: dict[str, Any], cost: float
) -> None:
    await configure(tmp_path, f"models:\n  scripted: {{price: {PRICE}}}\n")
    script = answers({"text": "Hi.", "usage": {**USAGE, **reported}})
    async with fake_model(script) as model, agent(tmp_path, model.url) as client:
        events = await client.ask("hi")
    expected = Usage(
        prompt_tokens=1_000,
        completion_tokens=100,
        cached_tokens=600,
        cache_write_tokens=100,
        reasoning_tokens=40,
        cost_micro_usd=round(cost),
        call_count=1,
    )
    assert events[-1].turn_finished.usage == expected


async def test_no_longer_answer_is_asked_for_than_the_model_can_give(tmp_path: Path) -> None:
    config = "models: {scripted: {max_output: 700}}\n"
    await asyncio.to_thread((tmp_path / "config.yaml").write_text, config)
    async with fake_model(answers({"text": "Hi."})) as model, agent(tmp_path, model.url) as client:
        await client.ask("hi")
    assert [body["max_tokens"] for body in model.bodies] == [700]
