"""What turns used, as it is summed up: every answer once, on SQLite and on PostgreSQL."""

from datetime import UTC, date, datetime
from pathlib import Path

import grpc.aio
import pytest

from hermes.agent.v1 import usage_pb2 as pb
from hermes.agent.v1.usage_pb2_grpc import UsageServiceStub
from hermes.common.v1.usage_pb2 import Usage
from services.cli.usage import first_day
from services.errors import InvalidArgument, Reason, reason_of
from tests.fakes.model import answers, fake_model
from tests.integration.agent_parts import AgentClient, agent

TOLD = {"prompt_tokens": 1_000, "completion_tokens": 10, "cost": 0.000_5}
ONE = Usage(prompt_tokens=1_000, completion_tokens=10, cost_micro_usd=500, call_count=1)
TWO = Usage(prompt_tokens=2_000, completion_tokens=20, cost_micro_usd=1_000, call_count=2)
THREE = Usage(prompt_tokens=3_000, completion_tokens=30, cost_micro_usd=1_500, call_count=3)
PLAN = {"name": "todo", "arguments": {"todos": [{"id": "1", "content": "look"}]}}
SCRIPT = {
    "rules": [
        {
            "user": "plan",
            "steps": [{"tool_calls": [PLAN], "usage": TOLD}, {"usage": TOLD, "text": "x"}],
        },
        {"steps": [{"text": "Hi.", "usage": TOLD}]},
    ]
}


async def used(client: AgentClient, **asked: object) -> pb.GetUsageResponse:
    stub = UsageServiceStub(client.channels.to("agent"))
    return await stub.GetUsage(pb.GetUsageRequest(**asked))  # pyright: ignore[reportArgumentType]


def summed(answer: pb.GetUsageResponse) -> dict[str, Usage]:
    return {one.key: one.usage for one in answer.sums}


async def test_usage_is_summed_up_by_day_model_session_and_profile(
    tmp_path: Path, database_url: str
) -> None:
    async with (
        fake_model(SCRIPT) as model,
        agent(tmp_path, model.url, HERMES_DATABASE_URL=database_url) as client,
    ):
        await client.ask("plan it", session_id="one")
        await client.ask("hi", session_id="two")
        work = await client.start("hi", session_id="three", profile="work")
        await client.watch(work.turn_id, profile="work")
        by_day = await used(client)
        by_model = await used(client, group_by=pb.USAGE_GROUP_MODEL)
        by_session = await used(client, group_by=pb.USAGE_GROUP_SESSION)
        of_all = await used(client, group_by=pb.USAGE_GROUP_PROFILE, all_profiles=True)
        first = await used(client, group_by=pb.USAGE_GROUP_SESSION, page_size=1)
        none = await used(client, until_day="2020-01-01")
        of_one = await used(client, session_id="two", since_day="2020-01-01")
    (day,) = summed(by_day)
    assert abs(date.fromisoformat(day) - datetime.now(UTC).date()).days <= 1
    assert summed(by_day)[day] == by_day.total == THREE
    assert summed(by_model) == {"scripted": THREE}
    assert summed(by_session) == {"one": TWO, "two": ONE}
    assert [one.key for one in by_session.sums] == ["one", "two"]
    assert summed(of_all) == {"default": THREE, "work": ONE}
    assert (summed(first), first.total) == ({"one": TWO}, THREE)
    assert (summed(none), none.total) == ({}, Usage())
    assert of_one.total == ONE


async def test_a_call_that_is_made_again_after_a_restart_counts_once(
    tmp_path: Path, database_url: str
) -> None:
    script = answers({"text": "Hel", "hang_after": 1}, {"text": "Hello.", "usage": TOLD})
    async with fake_model(script) as model:
        async with agent(tmp_path, model.url, HERMES_DATABASE_URL=database_url) as client:
            turn = await client.start("hi")
            await client.until_it_says_something(turn.turn_id)
            assert (await used(client)).total == Usage()
        async with agent(tmp_path, model.url, HERMES_DATABASE_URL=database_url) as client:
            events = await client.watch(turn.turn_id)
            assert (await used(client)).total == ONE
    assert events[-1].turn_finished.usage == ONE


async def test_what_nobody_counted_is_estimated(tmp_path: Path) -> None:
    chunk = '{"choices": [{"delta": {"content": "12345678"}, "finish_reason": "stop"}]}'
    async with fake_model(answers({"raw": [chunk, "[DONE]"]})) as model:
        async with agent(tmp_path, model.url) as client:
            await client.ask("hi")
            total = (await used(client)).total
        (sent,) = model.requests
    assert total.completion_tokens == 2
    assert 0 < total.prompt_tokens < len(sent.body) / 4


@pytest.mark.parametrize(
    "asked", [{"since_day": "yesterday"}, {"until_day": "2026-13-01"}, {"page_size": 1_001}]
)
async def test_what_makes_no_sense_is_refused(tmp_path: Path, asked: dict[str, object]) -> None:
    async with agent(tmp_path, "http://127.0.0.1:9/v1") as client:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await used(client, **asked)
    assert reason_of(refused.value) is Reason.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("since", "day"),
    [
        ("7d", "2026-11-17"),
        ("1d", "2026-11-23"),
        ("0d", "2026-11-23"),
        ("2026-01-02", "2026-01-02"),
        ("", ""),
    ],
)
def test_the_last_days_are_counted_from_today(since: str, day: str) -> None:
    found = first_day(since, date(2026, 11, 23))
    assert found == day


def test_a_day_that_is_none_is_refused_by_the_name_of_its_option() -> None:
    with pytest.raises(InvalidArgument, match="--since 'yesterday' is no day such as 2026-11-01"):
        first_day("yesterday", date(2026, 11, 23))
