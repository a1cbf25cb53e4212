"""Turns of a real agent service, its model a real server, on SQLite and on PostgreSQL."""

import asyncio
import json
from pathlib import Path

import grpc
import grpc.aio
import pytest

from hermes.agent.v1 import turn_pb2
from hermes.common.v1.error_pb2 import ErrorReason
from hermes.common.v1.origin_pb2 import Origin
from services.errors import Reason, reason_of
from services.rpc.streams import open_stream
from tests.fakes.model import answers, fake_model
from tests.integration.agent_parts import agent, answer, kinds, said, sequences
from tests.support.executors import refused

TEXT = {"text": "Hello there.", "chunk_chars": 3}
PLAN = {"name": "todo", "arguments": {"todos": [{"id": "1", "content": "look"}]}}


async def test_a_turn_is_a_gap_free_sequence_that_ends_with_its_answer(
    tmp_path: Path, database_url: str
) -> None:
    async with (
        # Who comes when it has all been said sees it as a whole, so it is not said at once.
        fake_model(answers({**TEXT, "latency_s": 1.0})) as model,
        agent(tmp_path, model.url, HERMES_DATABASE_URL=database_url) as client,
    ):
        events = await client.ask("hi")
    assert kinds(events) == ["turn_started", "text_finished", "usage_reported", "turn_finished"]
    assert sequences(events) == [1, 2, 3, 4]
    assert answer(events) == "Hello there."
    live = "".join(event.text_delta.text for event in events)
    assert live == "Hello there."


async def test_a_watcher_that_comes_back_gets_what_it_has_not_seen(tmp_path: Path) -> None:
    script = {"rules": [{"steps": [{"tool_calls": [PLAN]}, TEXT]}]}
    async with fake_model(script) as model, agent(tmp_path, model.url) as client:
        started = await client.start("hi")
        whole = await client.watch(started.turn_id)
        for last in range(len(sequences(whole))):
            rest = await client.watch(started.turn_id, after=last)
            assert sequences(rest) == sequences(whole)[last:]
        assert await client.watch(started.turn_id, after=sequences(whole)[-1]) == []


async def test_who_only_wants_the_end_gets_it_in_one_message(tmp_path: Path) -> None:
    slow = {**TEXT, "latency_s": 0.5}
    script = {"rules": [{"steps": [{"tool_calls": [PLAN], "latency_s": 0.5}, slow]}]}
    async with fake_model(script) as model, agent(tmp_path, model.url) as client:
        started = await client.start("hi")
        request = turn_pb2.WatchTurnRequest(turn_id=started.turn_id, ended_only=True)
        async with open_stream(client.turns.WatchTurn(request)) as call:
            (told,) = [message async for message in call]
        assert all(event.sequence for event in told.events)
        assert sequences(told.events) == sequences(await client.watch(started.turn_id))
        assert "tool_finished" in kinds(told.events)


async def test_what_a_session_begins_with_is_read_for_its_first_turn_alone(tmp_path: Path) -> None:
    async with fake_model(answers(TEXT)) as model, agent(tmp_path, model.url) as client:
        await client.ask("hi", session_id="begun")
        # No file that could be read.
        await asyncio.to_thread((tmp_path / "SOUL.md").mkdir)
        assert answer(await client.ask("again", session_id="begun")) == "Hello there."
        with pytest.raises(grpc.aio.AioRpcError):
            await client.start("hi", session_id="new")


async def test_a_tool_runs_between_two_model_calls(tmp_path: Path, database_url: str) -> None:
    script = {"rules": [{"steps": [{"tool_calls": [PLAN, PLAN]}, {"text": "{tool_result}"}]}]}
    async with (
        fake_model(script) as model,
        agent(tmp_path, model.url, HERMES_DATABASE_URL=database_url) as client,
    ):
        events = await client.ask("plan it")
    assert kinds(events) == [
        "turn_started",
        "text_finished",
        "usage_reported",
        "tool_started",
        "tool_started",
        "tool_finished",
        "tool_finished",
        "text_finished",
        "usage_reported",
        "turn_finished",
    ]
    assert answer(events) == "[ ] 1: look"
    assert [m["role"] for m in model.bodies[1]["messages"]] == [
        "system",
        "user",
        "assistant",
        "tool",
        "tool",
    ]


async def test_starting_again_returns_the_turn_and_another_request_is_refused(
    tmp_path: Path,
) -> None:
    async with fake_model(answers(TEXT)) as model, agent(tmp_path, model.url) as client:
        for _ in range(3):
            await client.start("hi", turn_id="trn_1")
        await client.watch("trn_1")
        again = await client.start("hi", turn_id="trn_1")
        assert again.state == turn_pb2.TURN_STATE_COMPLETED
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await client.start("something else", turn_id="trn_1")
    assert reason_of(refused.value) is Reason.ALREADY_EXISTS
    assert len(model.requests) == 1


async def test_another_profile_sees_neither_turn_nor_session(tmp_path: Path) -> None:
    async with fake_model(answers(TEXT)) as model, agent(tmp_path, model.url) as client:
        await client.watch((await client.start("hi", turn_id="trn_1")).turn_id)
        for request in (
            client.watch("trn_1", profile="other"),
            client.watch("trn_2", profile="other"),
            client.start("hi", profile="other"),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await request
            assert refused.value.code() is grpc.StatusCode.NOT_FOUND


async def test_a_second_message_waits_or_interrupts(tmp_path: Path, database_url: str) -> None:
    script = {
        "rules": [
            {
                "user": "slow",
                "steps": [{"text": "so it begins", "chunk_chars": 4, "hang_after": 2}],
            },
            {"steps": [TEXT]},
        ]
    }
    async with (
        fake_model(script) as model,
        agent(tmp_path, model.url, HERMES_DATABASE_URL=database_url) as client,
    ):
        slow = await client.start("slow", busy_mode=turn_pb2.BUSY_MODE_QUEUE)
        assert slow.state == turn_pb2.TURN_STATE_RUNNING
        await client.until_it_says_something(slow.turn_id)
        waiting = await client.start("later", busy_mode=turn_pb2.BUSY_MODE_QUEUE)
        assert waiting.state == turn_pb2.TURN_STATE_QUEUED
        urgent = await client.start("now", busy_mode=turn_pb2.BUSY_MODE_INTERRUPT)
        stopped = await client.watch(slow.turn_id)
        assert stopped[-1].turn_finished.cancelled.partial_answer
        assert answer(await client.watch(waiting.turn_id)) == "Hello there."
        assert answer(await client.watch(urgent.turn_id)) == "Hello there."
    asked = [body["messages"][-1]["content"] for body in model.bodies]
    assert asked == ["slow", "later", "now"]


async def test_a_queued_turn_that_is_interrupted_never_runs(tmp_path: Path) -> None:
    script = {"rules": [{"user": "slow", "steps": [{"text": "abc", "hang_after": 1}]}]}
    async with fake_model(script) as model, agent(tmp_path, model.url) as client:
        slow = await client.start("slow")
        await client.until_it_says_something(slow.turn_id)
        waiting = await client.start("slow too")
        request = turn_pb2.InterruptTurnRequest(turn_id=waiting.turn_id)
        answered = await client.turns.InterruptTurn(request)
        assert answered.turn.state == turn_pb2.TURN_STATE_CANCELLED
        assert (await client.watch(waiting.turn_id))[-1].turn_finished.HasField("cancelled")
        await client.turns.InterruptTurn(turn_pb2.InterruptTurnRequest(session_id="session"))
        await client.watch(slow.turn_id)
    assert len(model.requests) == 1


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ({"status": 401, "error": {"message": "bad key"}}, Reason.MODEL_AUTH),
        ({"status": 402, "error": {"message": "no credit"}}, Reason.MODEL_BILLING),
    ],
)
async def test_a_failed_model_call_ends_the_turn_with_a_reason(
    tmp_path: Path, reply: dict[str, object], reason: Reason
) -> None:
    async with fake_model(answers(reply)) as model, agent(tmp_path, model.url) as client:
        events = await client.ask("hi")
    failure = events[-1].turn_finished.failed.failure
    assert ErrorReason.Name(failure.reason) == f"ERROR_REASON_{reason}"
    assert failure.message
    assert "test-key" not in failure.message


async def test_a_persons_command_calls_no_model_and_the_next_message_shows_it(
    tmp_path: Path,
) -> None:
    async with fake_model(answers(TEXT)) as model, agent(tmp_path, model.url) as client:
        request = turn_pb2.StartTurnRequest(
            turn_id="typed",
            session_id="session",
            parts=said("! ls -l"),
            origin=Origin(platform="cli"),
            is_command=True,
        )
        await client.turns.StartTurn(request)
        events = await client.watch("typed")
        assert not model.bodies
        assert "usage_reported" not in kinds(events)
        (called,) = [event.tool_started for event in events if event.HasField("tool_started")]
        assert (called.name, json.loads(called.arguments_json)) == (
            "terminal",
            {"command": "ls -l"},
        )
        assert events[-1].turn_finished.HasField("completed")
        await client.ask("And?")
        roles = [message["role"] for message in model.bodies[0]["messages"]]
        assert roles == ["system", "user", "assistant", "tool", "assistant", "user"]
        usage = events[-1].turn_finished.usage
        assert (usage.prompt_tokens, usage.cost_micro_usd) == (0, 0)
        request.turn_id, request.retries = "again", True
        assert await refused(client.turns.StartTurn(request)) is Reason.INVALID_ARGUMENT
