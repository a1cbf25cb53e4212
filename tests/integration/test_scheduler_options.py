"""What jobs may ask for, on their way from the due time to the chats."""

import asyncio
from datetime import timedelta
from functools import partial

import grpc
import pytest
from msgspec.structs import replace

from hermes.agent.v1 import turn_pb2
from hermes.common.v1 import content_pb2
from scheduler_service.jobs import RunState
from scheduler_service.options import LOCAL, ORIGIN, JobOptions, Overlap
from scheduler_service.runs.prompts import instructions
from scheduler_service.storage import runs
from scheduler_service.storage.jobs import to_text
from scheduler_service.storage.schema import metadata
from services.errors import InvalidArgument
from tests.fakes.catalog import ATTACK
from tests.integration.scheduler_parts import NOON, SchedulerUnderTest, Wire


async def test_a_run_asks_for_what_its_job_does(running: SchedulerUnderTest, wire: Wire) -> None:
    job = await running.create(
        "x",
        "1m",
        model="small",
        workdir="/srv/x",
        toolsets=("web",),
        skills=("news", "b"),
        budget_tokens=7,
    )
    await running.create("plain", "1m")
    await running.passes()
    (run,), (plain_run,) = await running.finished("x"), await running.finished("plain")
    turn, plain = wire.turns.requests[run.id], wire.turns.requests[plain_run.id]
    assert (turn.model, turn.workdir, turn.toolsets) == ("small", "/srv/x", ["skills", "web"])
    assert [part.text for part in turn.parts] == ["answer hello"]
    assert turn.skills == ["news", "b"]
    assert turn.system_message == instructions(job)
    assert "[SILENT]" in turn.system_message
    assert (plain.model, plain.workdir, plain.toolsets) == ("", "", [])
    assert [part.text for part in plain.parts] == ["answer hello"]
    assert (plain.skills, plain.HasField("script")) == ([], False)
    assert wire.budgets.tokens == {"x": 7}


@pytest.mark.parametrize(
    ("only", "prompt", "mode"),
    [(False, "answer hello", turn_pb2.SCRIPT_MODE_GATE), (True, "", turn_pb2.SCRIPT_MODE_ONLY)],
)
async def test_a_run_is_given_its_jobs_script(
    running: SchedulerUnderTest, wire: Wire, only: bool, prompt: str, mode: int
) -> None:
    await running.create("x", "1m", prompt, script="date", script_mode="only" if only else "")
    await running.passes()
    (run,) = await running.finished("x")
    turn = wire.turns.requests[run.id]
    assert (turn.script.text, turn.script.mode) == ("date", mode)
    assert [part.text for part in turn.parts] == ([prompt] if prompt else [])


async def test_a_budget_that_is_taken_from_a_job_is_taken_back(
    running: SchedulerUnderTest, wire: Wire
) -> None:
    job = await running.create("x", "every 1h", budget_tokens=7)
    request = replace(job.spec, options=JobOptions())
    await running.catalog.update("default", "x", lambda _: request, anew=False)
    assert wire.budgets.tokens == {"x": None}


async def test_what_somebody_sets_for_a_job_outlasts_its_runs_and_not_its_next_budget(
    running: SchedulerUnderTest, wire: Wire
) -> None:
    job = await running.create("x", "every 1m", budget_tokens=7)
    await running.passes()
    await running.finished("x")
    assert wire.budgets.tokens == {"x": 7}
    wire.budgets.tokens["x"] = 900
    await running.passes()
    await running.finished("x", 2)
    assert wire.budgets.tokens == {"x": 900}
    for tokens, left in ((7, 900), (8, 8)):
        change = replace(job.spec, options=JobOptions(budget_tokens=tokens))
        await running.catalog.update("default", "x", lambda _, to=change: to, anew=False)
        assert wire.budgets.tokens == {"x": left}


@pytest.mark.parametrize("answer", ["[SILENT]", " [silent] nothing new\n", " \n"])
async def test_a_run_with_nothing_to_say_says_nothing(
    running: SchedulerUnderTest, wire: Wire, answer: str
) -> None:
    await running.create("x", "1m", f"answer {answer}")
    await running.passes()
    (run,) = await running.finished("x")
    assert (run.state, run.output, run.is_silent) == (RunState.SUCCEEDED, answer, True)
    assert not wire.deliveries.calls


async def test_output_goes_to_every_target_once(running: SchedulerUnderTest, wire: Wire) -> None:
    targets = (ORIGIN, "slack:C1:7", "telegram", ORIGIN, "telegram:42:7")
    await running.create("x", "1m", deliver_to=targets)
    await running.create("kept", "1m", deliver_to=(LOCAL,))
    await running.passes()
    (run,) = await running.finished("x")
    (kept,) = await running.finished("kept")
    sent = wire.deliveries.requests.values()
    assert {each.delivery_id: each.target for each in sent} == {
        run.id: ORIGIN,
        f"{run.id}.to1": "slack:C1:7",
        f"{run.id}.to2": "telegram",
    }
    assert {(each.origin.chat_id, each.origin.thread_id) for each in sent} == {("42", "7")}
    assert (kept.state, kept.output, kept.is_silent) == (RunState.SUCCEEDED, "hello", False)
    wire.deliveries.refusal = grpc.StatusCode.INVALID_ARGUMENT
    await running.create("refused", "1m", deliver_to=targets[:2])
    await running.passes()
    (run,) = await running.finished("refused")
    assert run.delivery_error == (
        "origin: there is no such platform; slack:C1:7: there is no such platform"
    )


async def test_what_other_jobs_came_to_joins_the_prompt(
    running: SchedulerUnderTest, wire: Wire
) -> None:
    await running.create("a", "1m", "answer ```old news```")
    await running.create("b", "1m", "answer a page that was read")
    await running.create("c", "every 1h", "answer never")
    await running.passes()
    await running.finished("a")
    await running.finished("b")
    await running.database.write(
        lambda connection: connection.execute(
            metadata.tables["run"]
            .update()
            .where(metadata.tables["run"].c.job_id == "b")
            .values(output=f"Please {ATTACK}")
        )
    )
    await running.create("sum", "1m", context_job_ids=("a", "b", "c", "sum"))
    await running.passes()
    (run,) = await running.finished("sum")
    parts = wire.turns.requests[run.id].parts
    texts = [part.text for part in parts]
    assert texts[:2] == ["answer hello", ""]
    quoted = parts[1].quotation
    assert (quoted.kind, quoted.author) == (content_pb2.QUOTATION_KIND_OUTPUT, "job a")
    assert quoted.text == "```old news```"
    assert texts[2] == (
        "What the job “job b” came to last is kept from you: it looks like an attack (override)."
    )
    assert texts[3:] == [f"The job “job {name}” has come to nothing yet." for name in ("c", "sum")]


@pytest.mark.parametrize("stored", [{"prompt": f"answer {ATTACK}"}, {"name": ATTACK}])
async def test_a_prompt_is_scanned_when_it_comes_and_before_each_run(
    running: SchedulerUnderTest, wire: Wire, stored: dict[str, str]
) -> None:
    job = await running.create("x", "every 1m")
    bad = replace(job.spec, prompt=f"now {ATTACK}")
    # The name is told to the agent as well.
    named = replace(job.spec, name=ATTACK)
    for attempt in (
        running.catalog.update("default", "x", lambda _: bad, anew=False),
        running.create("y", "1m", f"answer {ATTACK}"),
        running.catalog.update("default", "x", lambda _: named, anew=False),
    ):
        with pytest.raises(InvalidArgument, match="looks like an attack \\(override\\)"):
            await attempt
    assert (await running.catalog.get("default", "x")).spec.prompt == "answer hello"
    await running.database.write(  # as one that was stored before this was known
        lambda connection: connection.execute(
            metadata.tables["job"].update().values(spec=to_text(replace(job.spec, **stored)))
        )
    )
    await running.passes()
    (run,) = await running.finished("x")
    assert run.state is RunState.FAILED
    assert "looks like an attack (override)" in run.error
    assert wire.turns.requests == {}


async def test_a_failed_turn_is_tried_again_with_longer_and_longer_waits(
    running: SchedulerUnderTest, wire: Wire
) -> None:
    await running.create(
        "x", "1m", "fail no model", max_retries=2, retry_backoff=timedelta(seconds=1)
    )
    await running.passes()
    (run,) = await running.finished("x")
    assert list(wire.turns.requests) == [run.id, f"{run.id}.2", f"{run.id}.3"]
    sessions = [turn.session_id for turn in wire.turns.requests.values()]
    # The clock of the runs goes on by itself.
    assert len(set(sessions)) == 3
    assert all(session.startswith("cron_x_") for session in sessions)
    assert (run.state, run.attempt.number, run.error) == (RunState.FAILED, 3, "no model")
    assert wire.deliveries.texts == ['The job "job x" failed: no model']


@pytest.mark.parametrize("prompt", ["stop half", "limit so far", "review look"])
async def test_what_a_person_or_a_limit_has_stopped_is_not_tried_again(
    running: SchedulerUnderTest, wire: Wire, prompt: str
) -> None:
    await running.create("x", "1m", prompt, max_retries=5, retry_backoff=timedelta(seconds=1))
    await running.passes()
    (run,) = await running.finished("x")
    assert (run.state, run.attempt.number) == (RunState.FAILED, 1)


async def test_a_turn_that_takes_too_long_is_stopped(
    running: SchedulerUnderTest, wire: Wire
) -> None:
    await running.create("x", "1m", "wait so far", timeout=timedelta(seconds=1))
    await running.passes()
    (run,) = await running.finished("x")
    assert wire.turns.stopped == [run.id]
    assert (run.state, run.output) == (RunState.FAILED, "so far")
    assert run.error == "it took longer than 1 s"


async def test_a_run_that_is_to_be_tried_again_ends_with_its_job(
    running: SchedulerUnderTest, wire: Wire
) -> None:
    await running.create(
        "x", "1m", "fail no model", max_retries=1, retry_backoff=timedelta(seconds=3600)
    )
    await running.passes()
    while (run := (await running.claimed("x"))[0]).attempt.number == 1:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    await running.catalog.delete("default", "x")
    while running.planner.leases:  # noqa: ASYNC110 - the lease is found to be lost
        await asyncio.sleep(0.01)
    ended = await running.database.read(partial(runs.find_run, run_id=run.id))
    assert ended is not None
    why = "the job was deleted; its last attempt had failed: no model"
    assert (ended.state, ended.error) == (RunState.CANCELLED, why)
    assert wire.deliveries.texts == []


async def test_a_run_may_take_the_place_of_another(running: SchedulerUnderTest, wire: Wire) -> None:
    await running.create("x", "every 1m", "wait done", overlap_policy=Overlap.REPLACE)
    await running.passes()
    (first,) = await wire.turns.started(1)
    await wire.turns.watched(first, 1)
    await running.passes()
    _, second = await wire.turns.started(2)
    assert wire.turns.stopped == [first]
    wire.turns.release(second)
    await running.finished("x")
    runs = await running.claimed("x", 2)
    assert [run.state for run in runs] == [RunState.SUCCEEDED, RunState.CANCELLED]
    assert runs[1].error == "the job's next run took its place"
    assert wire.deliveries.texts == ["done"]
    while first in {lease.id for lease in running.planner.leases}:  # noqa: ASYNC110 - it lets go of it
        await asyncio.sleep(0.01)


async def test_a_job_ends_after_so_many_runs(running: SchedulerUnderTest, wire: Wire) -> None:
    await running.create("x", "every 1m", max_runs=2)
    for count in (1, 2):
        await running.passes()
        await running.finished("x", count)
    job = await running.catalog.get("default", "x")
    assert (job.next_run_at, job.run_count) == (None, 2)
    assert job.last_run is not None
    assert job.last_run.scheduled_for == NOON + timedelta(minutes=2)
