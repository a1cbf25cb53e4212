"""A job's way from its due time to the chat, with an agent and a gateway at the wire."""

from datetime import timedelta

import grpc
import pytest

from hermes.agent.v1 import turn_pb2
from hermes.common.v1 import origin_pb2
from scheduler_service.jobs import JobState, Origin, RunState
from tests.integration.scheduler_parts import CHAT, NOON, SchedulerUnderTest, Wire


async def test_a_run_is_a_turn_whose_answer_goes_to_the_jobs_chat(
    running: SchedulerUnderTest, wire: Wire
) -> None:
    await running.create("news", "in 20 minutes", "answer **hello**")
    await running.passes(20 * 60)
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
    for origin in (turn.origin, delivery.origin):
        assert (origin.platform, origin.chat_id, origin.thread_id) == ("telegram", "42", "7")
        assert origin.trust == origin_pb2.TRUST_SERVICE


@pytest.mark.parametrize(("prompt", "origin"), [("answer hello", None), ("answer  \n", CHAT)])
async def test_without_a_chat_or_a_word_to_say_the_output_is_only_stored(
    running: SchedulerUnderTest, wire: Wire, prompt: str, origin: Origin | None
) -> None:
    await running.create("quiet", "1m", prompt, origin=origin)
    await running.passes()
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
    running: SchedulerUnderTest, wire: Wire, prompt: str, output: str, error: str, report: str
) -> None:
    await running.create("x", "1m", prompt)
    await running.passes()
    (run,) = await running.finished("x")
    await running.counted("hermes_cron_runs_total", 1, outcome="failed")
    assert (run.state, run.output, run.error) == (RunState.FAILED, output, error)
    assert wire.deliveries.texts == [report]


async def test_of_failures_in_a_row_the_first_is_told_and_that_they_are_over(
    running: SchedulerUnderTest, wire: Wire
) -> None:
    refused = grpc.StatusCode.FAILED_PRECONDITION
    await running.create("x", "every 1m", "answer all is well")
    for count, refusal in enumerate([None, refused, refused, refused, None, None, refused], 1):
        wire.turns.refusal = refusal
        await running.passes()
        await running.finished("x", count)
    failed = (
        'The job "job x" failed: no model is configured\n\n'
        "You will not hear of further failures until it works again."
    )
    assert wire.deliveries.texts == [
        "all is well",
        failed,
        'The job "job x" works again.\n\nall is well',
        "all is well",
        failed,
    ]


async def test_streams_that_are_cut_are_resumed_behind_the_last_event(
    running: SchedulerUnderTest, wire: Wire
) -> None:
    wire.turns.cuts = 3
    await running.create("x", "1m")
    await running.passes()
    (run,) = await running.finished("x")
    assert run.state == RunState.SUCCEEDED
    assert wire.turns.watched_after[run.id] == [0, 1, 1, 1]
    assert wire.turns.start_calls[run.id] == 1


async def test_a_delivery_whose_answer_was_lost_is_repeated_under_the_same_id(
    running: SchedulerUnderTest, wire: Wire
) -> None:
    wire.deliveries.lost_answers = 3
    await running.create("x", "1m")
    await running.passes()
    (run,) = await running.finished("x")
    assert run.state == RunState.SUCCEEDED
    assert wire.deliveries.texts == ["hello"]
    assert wire.deliveries.calls[run.id] == 4
    assert wire.deliveries.conflicts == []


async def test_an_answer_too_long_to_deliver_is_shortened(
    running: SchedulerUnderTest, wire: Wire
) -> None:
    await running.create("x", "1m", "answer " + "ä" * 600_000)
    await running.passes()
    (run,) = await running.finished("x")
    (text,) = wire.deliveries.texts
    assert text == run.output
    assert len(text.encode()) < 1024 * 1024
    assert text.endswith("ä\n\n… (this was longer)")


@pytest.mark.parametrize(
    ("prompt", "output", "error"),
    [("answer hello", "hello", ""), ("fail no\0model", "", "no\ufffdmodel")],
)
async def test_what_a_gateway_refuses_is_a_failure_and_kept_with_the_reason(
    running: SchedulerUnderTest, wire: Wire, prompt: str, output: str, error: str
) -> None:
    wire.deliveries.refusal = grpc.StatusCode.INVALID_ARGUMENT
    await running.create("x", "1m", prompt)
    await running.passes()
    (run,) = await running.finished("x")
    assert (run.state, run.output, run.error) == (RunState.FAILED, output, error)
    assert run.delivery_error == "there is no such platform"


async def test_a_jobs_runs_do_not_overlap_and_what_came_due_meanwhile_is_one_run(
    running: SchedulerUnderTest, wire: Wire
) -> None:
    await running.create("x", "every 1m", "wait done")
    await running.passes()
    (first,) = await wire.turns.started(1)
    await running.passes(210)
    await running.create("probe", "1s")
    await running.passes(1)
    await running.finished("probe")
    assert len(await running.claimed("x")) == 1
    wire.turns.release(first)
    latest, *_ = await running.claimed("x", 2)
    wire.turns.release(latest.id)
    found = await running.finished("x", 2)
    due = [NOON + timedelta(minutes=4), NOON + timedelta(minutes=1)]
    assert [run.scheduled_for for run in found] == due
    assert running.metric("hermes_cron_missed_total", policy="once") == 1
