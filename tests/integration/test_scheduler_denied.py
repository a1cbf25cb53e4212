"""What may not be said by whoever has made or changed a job, its runs do not do either."""

import asyncio
from typing import Any

from google.protobuf.duration_pb2 import Duration

from hermes.scheduler.v1 import job_pb2, run_pb2
from services.errors import Reason
from services.ids import new_id
from tests.integration.scheduler_served import Serving, change, options, refused, request

NO_MEMORY, NO_JOBS, NO_SEARCH = "memory show", "cron add", "sessions"


async def stored(served: Serving, **fields: Any) -> job_pb2.Job:
    return (await served.jobs().CreateJob(request(**fields))).job


async def run_now(served: Serving, job: job_pb2.Job) -> run_pb2.Run:
    """A run of a job, once it has ended."""
    run_id = new_id("run")
    await served.jobs().RunJob(run_pb2.RunJobRequest(job_id=job.job_id, run_id=run_id))
    seen = run_pb2.Run()
    async with asyncio.timeout(20):
        async for response in served.jobs().WatchRun(run_pb2.WatchRunRequest(run_id=run_id)):
            seen = response.run
    return seen


def denied_to(served: Serving, turn_id: str) -> list[str]:
    return list(served.wire.turns.requests[turn_id].denied_commands)


async def test_every_run_of_a_job_and_each_attempt_has_what_is_denied_to_who_made_it(
    served: Serving,
) -> None:
    often = options(max_retries=1, retry_backoff=Duration(seconds=1))
    job = await stored(
        served, prompt="fail no", options=often, denied_commands=[NO_SEARCH, NO_MEMORY, NO_SEARCH]
    )
    assert list(job.denied_commands) == [NO_MEMORY, NO_SEARCH]
    run = await run_now(served, job)
    assert run.attempt == 2
    for turn_id in (run.run_id, f"{run.run_id}.2"):
        assert denied_to(served, turn_id) == [NO_MEMORY, NO_SEARCH]
    await stored(served, schedule="in 1 second", denied_commands=[NO_JOBS])
    *_, due = await served.wire.turns.started(3)
    assert denied_to(served, due) == [NO_JOBS]
    free = await run_now(served, await stored(served))
    assert denied_to(served, free.turn_id) == []


async def test_a_run_that_is_shown_what_others_came_to_has_what_is_denied_to_them(
    served: Serving,
) -> None:
    first = await stored(served, denied_commands=[NO_MEMORY])
    chained = options(context_job_ids=[first.job_id])
    second = await stored(served, options=chained, denied_commands=[NO_SEARCH])
    run = await run_now(served, second)
    assert denied_to(served, run.turn_id) == [NO_MEMORY, NO_SEARCH]
    assert list(second.denied_commands) == [NO_SEARCH]


async def test_whoever_changes_a_job_gives_its_runs_no_right_that_they_have_not(
    served: Serving,
) -> None:
    jobs = served.jobs()
    job = await stored(served, denied_commands=[NO_MEMORY])

    async def changed(*denied: str, **fields: Any) -> list[str]:
        asked = change(job.job_id, **fields)
        asked.denied_commands.extend(denied)
        return list((await jobs.UpdateJob(asked)).job.denied_commands)

    assert await changed(NO_JOBS, prompt="answer more") == [NO_JOBS, NO_MEMORY]
    assert await changed(prompt="answer again") == [NO_JOBS, NO_MEMORY], "words of both are in it"
    lifted = await changed(NO_SEARCH, denied_commands=[])
    assert lifted == [NO_JOBS, NO_MEMORY, NO_SEARCH], "something is denied to who asks for it"
    assert denied_to(served, (await run_now(served, job)).turn_id) == lifted
    assert await changed(denied_commands=[NO_SEARCH]) == [NO_SEARCH]
    assert await changed(denied_commands=[]) == []
    assert denied_to(served, (await run_now(served, job)).turn_id) == []


async def test_asked_for_again_a_job_keeps_what_was_denied_first(served: Serving) -> None:
    asked = request(denied_commands=[NO_MEMORY])
    first = (await served.jobs().CreateJob(asked)).job
    del asked.job.denied_commands[:]
    assert (await served.jobs().CreateJob(asked)).job == first


async def test_too_many_denials_are_refused(served: Serving) -> None:
    job = await stored(served)
    for denied in ([f"c{number}" for number in range(201)], ["x" * 65]):
        asked = request(denied_commands=denied)
        reason, _ = await refused(served.jobs().CreateJob(asked))
        assert reason is Reason.INVALID_ARGUMENT
        update = change(job.job_id, name="other")
        update.denied_commands.extend(denied)
        reason, _ = await refused(served.jobs().UpdateJob(update))
        assert reason is Reason.INVALID_ARGUMENT
