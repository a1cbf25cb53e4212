"""A job's way from its due time to the chat, with an agent and a gateway at the wire."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import grpc
import pytest

from hermes.agent.v1 import turn_pb2
from hermes.common.v1 import origin_pb2
from scheduler_service.jobs import JobState, Origin, RunState
from scheduler_service.storage.schema import metadata
from services.database import Database
from tests.integration.scheduler_parts import CHAT, SetClock, Wire, scheduler

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


@pytest.fixture
async def database(sqlite_url: str) -> AsyncIterator[Database]:
    async with Database(sqlite_url, "scheduler") as opened:
        await opened.migrate(metadata.create_all)
        yield opened


async def test_a_run_is_a_turn_whose_answer_goes_to_the_jobs_chat(
    database: Database, wire: Wire
) -> None:
    clock = SetClock(NOON)
    async with scheduler(database, wire, clock=clock) as running:
        await running.create("news", "in 20 minutes", "answer **hello**")
        clock.step(20 * 60)
        await running.look()
        assert await wire.deliveries.delivered(1) == ["**hello**"]
        (run,) = await running.finished("news")
        job = await running.catalog.get("default", "news")

    assert (run.state, run.output, run.error) == (RunState.SUCCEEDED, "**hello**", "")
    assert run.scheduled_for == NOON + timedelta(minutes=20)
    assert (job.state, job.next_run_at) == (JobState.COMPLETED, None)
    turn = wire.turns.requests[run.id]
    assert turn.kind == turn_pb2.TURN_KIND_JOB
    assert turn.session_id == "cron_news_20260105_122000"
    assert [part.text for part in turn.parts] == ["answer **hello**"]
    delivery = wire.deliveries.requests[run.id]
    for origin in (turn.origin, delivery.destination):
        assert (origin.platform, origin.chat_id, origin.thread_id) == ("telegram", "42", "7")
        assert origin.trust == origin_pb2.TRUST_SERVICE


@pytest.mark.parametrize(("prompt", "origin"), [("answer hello", None), ("answer  \n", CHAT)])
async def test_without_a_chat_or_a_word_to_say_the_output_is_only_stored(
    database: Database, wire: Wire, prompt: str, origin: Origin | None
) -> None:
    clock = SetClock(NOON)
    async with scheduler(database, wire, clock=clock) as running:
        await running.create("quiet", "1m", prompt, origin=origin)
        clock.step(60)
        await running.look()
        (run,) = await running.finished("quiet")
    assert run.state == RunState.SUCCEEDED
    assert run.output == prompt.removeprefix("answer ")
    assert not wire.deliveries.calls


@pytest.mark.parametrize(
    ("prompt", "output", "error", "report"),
    [
        ("fail no model", "", "no model", 'The job "job x" failed: no model'),
        ("stop half", "half", "it was stopped", 'The job "job x" failed: it was stopped\n\nhalf'),
        (
            "limit so far",
            "so far",
            "too many calls",
            'The job "job x" failed: too many calls\n\nso far',
        ),
        ("review look", "", "look", 'The job "job x" failed: look'),
    ],
)
async def test_a_turn_that_does_not_complete_is_a_failure_and_told(
    database: Database, wire: Wire, prompt: str, output: str, error: str, report: str
) -> None:
    clock = SetClock(NOON)
    async with scheduler(database, wire, clock=clock) as running:
        await running.create("x", "1m", prompt)
        clock.step(60)
        await running.look()
        (run,) = await running.finished("x")
        await running.counted("hermes_cron_runs_total", 1, outcome="failed")
    assert (run.state, run.output, run.error) == (RunState.FAILED, output, error)
    assert wire.deliveries.texts == [report]


async def test_of_failures_in_a_row_the_first_is_told_and_that_they_are_over(
    database: Database, wire: Wire
) -> None:
    clock, refused = SetClock(NOON), grpc.StatusCode.FAILED_PRECONDITION
    async with scheduler(database, wire, clock=clock) as running:
        await running.create("x", "every 1m", "answer all is well")
        for count, refusal in enumerate([None, refused, refused, refused, None, None, refused], 1):
            wire.turns.refusal = refusal
            clock.step(60)
            await running.look()
            await running.finished("x", count)
    failed = (
        'The job "job x" failed: no model is configured\n\n'
        "Further failures of it are not told, until it works again."
    )
    assert wire.deliveries.texts == [
        "all is well",
        failed,
        'The job "job x" works again.\n\nall is well',
        "all is well",
        failed,
    ]


async def test_streams_that_are_cut_are_resumed_behind_the_last_event(
    database: Database, wire: Wire
) -> None:
    wire.turns.cuts = 3
    clock = SetClock(NOON)
    async with scheduler(database, wire, clock=clock) as running:
        await running.create("x", "1m")
        clock.step(60)
        await running.look()
        (run,) = await running.finished("x")
    assert run.state == RunState.SUCCEEDED
    assert wire.turns.watched_after[run.id] == [0, 1, 1, 1]
    assert wire.turns.start_calls[run.id] == 1


async def test_a_run_waits_for_an_agent_and_a_gateway_that_are_away(
    database: Database, wire: Wire
) -> None:
    wire.turns.unreachable = wire.deliveries.unreachable = True
    clock = SetClock(NOON)
    async with scheduler(database, wire, clock=clock) as running:
        await running.create("x", "1m")
        clock.step(60)
        await running.look()
        await asyncio.sleep(0.3)
        assert wire.turns.requests == {}
        wire.turns.unreachable = False
        await wire.turns.started(1)
        await asyncio.sleep(0.3)
        assert wire.deliveries.texts == []
        wire.deliveries.unreachable = False
        assert await wire.deliveries.delivered(1) == ["hello"]
        (run,) = await running.finished("x")
    assert run.state == RunState.SUCCEEDED


async def test_a_delivery_whose_answer_was_lost_is_repeated_under_the_same_id(
    database: Database, wire: Wire
) -> None:
    wire.deliveries.lost_answers = 3
    clock = SetClock(NOON)
    async with scheduler(database, wire, clock=clock) as running:
        await running.create("x", "1m")
        clock.step(60)
        await running.look()
        (run,) = await running.finished("x")
    assert run.state == RunState.SUCCEEDED
    assert wire.deliveries.texts == ["hello"]
    assert wire.deliveries.calls[run.id] == 4
    assert wire.deliveries.conflicts == []


async def test_a_gateway_that_refuses_makes_the_run_a_failure(
    database: Database, wire: Wire
) -> None:
    wire.deliveries.refusal = grpc.StatusCode.INVALID_ARGUMENT
    clock = SetClock(NOON)
    async with scheduler(database, wire, clock=clock) as running:
        await running.create("x", "1m")
        clock.step(60)
        await running.look()
        (run,) = await running.finished("x")
    assert run.state == RunState.FAILED
    assert (run.error, run.delivery_error) == ("", "there is no such platform")
    assert run.output == "hello"


async def test_an_answer_too_long_to_deliver_is_shortened(database: Database, wire: Wire) -> None:
    clock = SetClock(NOON)
    async with scheduler(database, wire, clock=clock) as running:
        await running.create("x", "1m", "answer " + "ä" * 600_000)
        clock.step(60)
        await running.look()
        (run,) = await running.finished("x")
    (text,) = wire.deliveries.texts
    assert text == run.output
    assert len(text.encode()) < 1024 * 1024
    assert text.endswith("ä\n\n… (this was longer)")


async def test_a_failure_that_cannot_be_told_is_kept_with_the_reason(
    database: Database, wire: Wire
) -> None:
    wire.deliveries.refusal = grpc.StatusCode.INVALID_ARGUMENT
    clock = SetClock(NOON)
    async with scheduler(database, wire, clock=clock) as running:
        await running.create("x", "1m", "fail no\0model")
        clock.step(60)
        await running.look()
        (run,) = await running.finished("x")
    assert (run.error, run.delivery_error) == ("no\ufffdmodel", "there is no such platform")


async def test_turns_wait_for_a_slot_but_are_claimed_in_time(
    database: Database, wire: Wire
) -> None:
    clock = SetClock(NOON)
    async with scheduler(database, wire, clock=clock, slots=2) as running:
        for number in range(5):
            await running.create(f"job{number}", "1m", "wait done")
        clock.step(60)
        await running.look()
        first = await wire.turns.started(2)
        for number in range(5):
            (run,) = await running.claimed(f"job{number}")
            assert run.claimed_at == clock.now()
        await asyncio.sleep(0.1)
        assert len(wire.turns.requests) == 2
        for turn_id in first:
            wire.turns.release(turn_id)
        started = await wire.turns.started(4)
        for turn_id in started:
            wire.turns.release(turn_id)
        for turn_id in await wire.turns.started(5):
            wire.turns.release(turn_id)
        assert await wire.deliveries.delivered(5) == ["done"] * 5
