"""Models that take over: when, for how long, what is said of it, and after a kill."""

import asyncio
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from agent_service.records.requests import Switched
from agent_service.storage.schema import turn as turn_table
from hermes.agent.v1 import usage_pb2 as pb
from hermes.agent.v1.turn_event_pb2 import TurnEvent
from hermes.agent.v1.usage_pb2_grpc import UsageServiceStub
from services.database import Database
from tests.fakes.model import FakeModel, answers, fake_model
from tests.integration.agent_parts import AgentClient, agent, answer, kinds
from tests.integration.test_agent_takeover import staged

USED = {"prompt_tokens": 1000, "completion_tokens": 10}
PLAN = {"name": "todo", "arguments": {"todos": [{"id": "1", "content": "look"}]}}
HI = {"text": "Hi.", "usage": USED}
SEEN = {**HI, "latency_s": 0.3}
"""Comes when the turn is watched, also on a machine that has other things to do."""
REFUSES = {"status": 401, "error": {"error": {"message": "no such key"}}}
KEY = "sk-other-0123456789"


async def chain_to(home: Path, *others: FakeModel, more: str = "") -> None:
    """Configure models that take over, of the names other-1, other-2 and so on."""
    entries = "".join(
        f"  - {{provider: spare, model: other-{number}, base_url: '{model.url}', "
        "key_env: SPARE_API_KEY}\n"
        for number, model in enumerate(others, 1)
    )
    text = f"agent: {{api_max_retries: 0}}\n{more}fallback_providers:\n{entries}"
    await asyncio.to_thread(_write, home, text)


def _write(home: Path, text: str) -> None:
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text(text, "utf-8")
    (home / ".env").write_text(f"SPARE_API_KEY={KEY}\n", "utf-8")
    (home / ".env").chmod(0o600)


def notices(events: Sequence[TurnEvent]) -> list[str]:
    return [e.notice.text for e in events if e.WhichOneof("kind") == "notice"]


def models_of(server: FakeModel) -> list[str]:
    return [body["model"] for body in server.bodies]


async def test_a_turn_goes_on_with_the_next_model_and_the_next_turn_with_the_first(
    tmp_path: Path, database_url: str
) -> None:
    script = answers({"status": 429, "headers": {"retry-after": "0"}}, HI)
    plans = {"rules": [{"steps": [{"tool_calls": [PLAN], "usage": USED}, SEEN]}]}
    async with fake_model(script) as first, fake_model(plans) as other:
        await chain_to(tmp_path, other)
        async with agent(tmp_path, first.url, HERMES_DATABASE_URL=database_url) as client:
            events = await client.ask("plan it")
            after = await client.ask("hello")
    assert answer(events) == answer(after) == "Hi."
    assert models_of(first) == ["scripted", "scripted"]
    assert models_of(other) == ["other-1", "other-1"]
    (said,) = notices(events)
    assert "limits requests" in said
    assert said.endswith("Going on with spare:other-1 for the rest of this turn.")
    assert notices(after) == []
    # The same bytes, whoever is asked.
    refused, asked = first.bodies[0], other.bodies[0]
    assert asked["messages"] == refused["messages"]
    assert asked["tools"] == refused["tools"]
    assert other.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert (
        first.bodies[1]["messages"][: len(other.bodies[1]["messages"])]
        == (other.bodies[1]["messages"])
    )
    assert kinds(events).count("usage_reported") == 2


async def test_what_was_half_said_before_the_switch_is_void(tmp_path: Path) -> None:
    cut = answers({"text": "Half of an answer", "chunk_chars": 4, "cut_after": 3})
    async with fake_model(cut) as first, fake_model(answers(HI)) as other:
        await chain_to(tmp_path, other)
        async with agent(tmp_path, first.url) as client:
            events = await client.ask("hello")
    assert answer(events) == "Hi."
    shown = ""
    for event in events:
        match event.WhichOneof("kind"):
            case "notice":
                shown = ""
            case "text_snapshot":
                shown = event.text_snapshot.text
            case "text_delta":
                assert event.text_delta.offset == len(shown)
                shown += event.text_delta.text
            case _:
                pass
    assert shown in {"", "Hi."}


async def test_one_that_failed_is_left_alone_for_a_while(tmp_path: Path) -> None:
    async with fake_model(answers(REFUSES)) as first, fake_model(answers(SEEN)) as other:
        await chain_to(tmp_path, other)
        async with agent(tmp_path, first.url) as client:
            await client.ask("hello")
            events = await client.ask("hello again")
    assert len(first.requests) == 1
    assert len(other.requests) == 2
    (said,) = notices(events)
    assert said.startswith("scripted has failed a moment ago")
    assert said.endswith("spare:other-1 answers this turn.")


async def test_a_request_that_is_itself_refused_goes_to_nobody_else(tmp_path: Path) -> None:
    refused = {"status": 400, "error": {"error": {"message": "tools: bad schema"}}}
    async with fake_model(answers(refused)) as first, fake_model(answers(HI)) as other:
        await chain_to(tmp_path, other)
        async with agent(tmp_path, first.url) as client:
            events = await client.ask("hello")
    assert other.requests == []
    assert "tools: bad schema" in events[-1].turn_finished.failed.failure.message


STOPPED = [
    {"status": 400, "error": {"error": {"code": "content_policy_violation", "message": "no"}}},
    {"finish_reason": "content_filter"},
]


@pytest.mark.parametrize("stopped", STOPPED)
async def test_what_one_policy_stops_another_model_answers_and_nobody_is_left_alone(
    tmp_path: Path, stopped: dict[str, Any]
) -> None:
    async with fake_model(answers(stopped, HI)) as first, fake_model(answers(SEEN)) as other:
        await chain_to(tmp_path, other)
        async with agent(tmp_path, first.url) as client:
            events = await client.ask("how do locks work?")
            after = await client.ask("thank you")
    assert answer(events) == answer(after) == "Hi."
    (said,) = notices(events)
    assert "content policy" in said
    assert notices(after) == []
    assert (len(first.requests), len(other.requests)) == (2, 1)


async def test_where_all_fail_the_turn_says_how_each_did(tmp_path: Path) -> None:
    busy = answers({"status": 503, "error": {"error": {"message": f"busy, {KEY}"}}})
    async with fake_model(answers(REFUSES)) as first, fake_model(busy) as other:
        await chain_to(tmp_path, other)
        async with agent(tmp_path, first.url) as client:
            events = await client.ask("hello")
    said = events[-1].turn_finished.failed.failure.message
    assert "refused the key" in said
    assert "spare:other-1: The model endpoint" in said
    assert "overloaded" in said
    assert KEY not in said
    assert not any(KEY in notice for notice in notices(events))


async def test_use_is_booked_to_the_model_that_answered_and_reserved_by_its_price(
    tmp_path: Path, database_url: str
) -> None:
    prices = (
        "model: {max_tokens: 1000}\nbudget: {day: {usd: 1}}\nmodels:\n"
        "  scripted: {price: {input: 1, output: 1}}\n"
        "  other-1: {price: {input: 10, output: 10}}\n"
        "  other-2: {price: {input: 10, output: 100000}}\n"
    )
    async with (
        fake_model(answers(REFUSES)) as first,
        fake_model(answers(HI, REFUSES)) as other,
        fake_model(answers(HI)) as dear,
    ):
        await chain_to(tmp_path, other, dear, more=prices)
        async with agent(tmp_path, first.url, HERMES_DATABASE_URL=database_url) as client:
            events = await client.ask("hello")
            stub = UsageServiceStub(client.channels.to("agent"))
            request = pb.GetUsageRequest(group_by=pb.USAGE_GROUP_MODEL)
            used = await stub.GetUsage(request)
            # The third would cost more than the day has left: it is not asked.
            after = await client.ask("hello again")
            (budget,) = (await stub.GetBudget(pb.GetBudgetRequest())).budgets
    assert events[-1].turn_finished.usage.cost_micro_usd == 10_100
    assert [(row.key, row.usage.cost_micro_usd) for row in used.sums] == [("other-1", 10_100)]
    assert after[-1].turn_finished.WhichOneof("outcome") == "limit_reached"
    assert dear.requests == []
    assert (budget.spent.micro_usd, budget.reserved.micro_usd) == (10_100, 0)


@pytest.mark.parametrize("is_still_configured", [True, False])
async def test_a_killed_turn_goes_on_with_the_model_that_had_taken_over(
    tmp_path: Path, postgres_url: str, *, is_still_configured: bool
) -> None:
    script: Mapping[str, Any] = {"rules": [{"steps": [[REFUSES, HI], HI]}]}
    plans = {"rules": [{"steps": [{"tool_calls": [PLAN]}, [{"hang_after": 0}, HI]]}]}
    async with (
        fake_model(plans) as other,
        staged(tmp_path, postgres_url, dict(script)) as stage,
        Database(postgres_url, "agent") as database,
    ):
        await chain_to(tmp_path / "first", other)
        if is_still_configured:
            await chain_to(tmp_path / "second", other)
        async with stage.agent("first") as before, before.client() as client:
            turn_id = (await client.start("go")).turn_id
            await other.until(lambda: len(other.requests) == 2)
            before.signal(signal.SIGKILL)
            events = await _taken_over(stage, turn_id)
        stored = await database.read(
            lambda conn: conn.execute(sa.select(turn_table.c.request)).scalar_one()
        )
    assert answer(events) == "Hi."
    assert stored.options.model == "scripted"
    if is_still_configured:
        assert models_of(other) == ["other-1"] * 3
        assert models_of(stage.model) == ["scripted"]
        assert other.bodies[1]["messages"] == other.bodies[2]["messages"]
        assert stored.switched == Switched("spare:other-1", "other-1")
    else:
        assert models_of(other) == ["other-1"] * 2
        assert models_of(stage.model) == ["scripted"] * 2
        assert stored.switched == Switched("", "scripted")


async def _taken_over(stage: Any, turn_id: str) -> list[TurnEvent]:
    async with stage.agent("second") as second, second.client() as client:
        found: AgentClient = client
        return await found.watch(turn_id)


async def test_a_failed_turn_says_how_long_its_provider_asks_to_wait(tmp_path: Path) -> None:
    script = answers({"status": 429, "headers": {"retry-after": "3600"}}, {"status": 400})
    async with fake_model(script) as server, agent(tmp_path, server.url) as client:
        limited, refused = await client.ask("hello"), await client.ask("hello")
    failure = limited[-1].turn_finished.failed.failure
    assert failure.retry_after.ToSeconds() == 3600
    assert not refused[-1].turn_finished.failed.failure.HasField("retry_after")
