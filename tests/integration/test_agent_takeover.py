"""Several agents on one database and one executor: who takes a turn over, and what it then does."""

import asyncio
import secrets
import signal
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from agent_service.storage import schema
from hermes.agent.v1 import turn_pb2
from hermes.agent.v1.turn_event_pb2 import TurnEvent
from services.database import Database
from tests.e2e.processes import with_marker
from tests.fakes.model import FakeModel, fake_model
from tests.integration.agent_parts import AgentClient, answer, kinds, sequences
from tests.integration.agent_processes import AgentProcess, Site
from tests.support.executors import Process, end_boxes, executor_settings, until

TELL = {"text": "{tool_result}"}
UNCERTAIN = "unknown whether this call took effect"
HANGS = {"text": "well", "hang_after": 0}


def _shell(command: str) -> dict[str, Any]:
    return {"name": "terminal", "arguments": {"command": command}}


def steps(*said: dict[str, Any]) -> dict[str, Any]:
    return {"rules": [{"steps": list(said)}]}


SLOW = steps({"tool_calls": [_shell("echo ran >>log; sleep 2; echo done")]}, TELL)


class Stage:
    """An executor, a database and a model, for agents to come and go."""

    def __init__(self, site: Site, executor: Process, model: FakeModel, database: Database) -> None:
        self.site = site
        self.executor = executor
        self.model = model
        self._database = database

    def agent(self, instance: str) -> AgentProcess:
        return AgentProcess(self.site, instance)

    async def lose_sandboxes(self) -> None:
        await self.executor.kill()
        await end_boxes(self.executor.settings)

    async def has_written(self, name: str, text: str) -> None:
        """Wait until a file of the only workspace has this text."""

        async def written() -> bool:
            return text in await self.file(name)

        await until(written)

    async def file(self, name: str) -> str:
        return await asyncio.to_thread(self._read, name)

    async def rows(self, table: sa.Table) -> list[tuple[Any, ...]]:
        query = sa.select(table).order_by(*table.primary_key.columns)
        return await self._database.read(lambda conn: [tuple(r) for r in conn.execute(query)])

    async def has_steps(self, state: str, count: int = 1) -> None:
        """Wait until so many tool calls have come so far."""

        async def reached() -> bool:
            return [(r[2], r[4]) for r in await self.rows(schema.step)].count(
                ("TOOL", state)
            ) >= count

        await until(reached)

    def _read(self, name: str) -> str:
        workspaces = self.executor.settings.home.workspaces
        return "".join(found.read_text() for found in workspaces.rglob(name))


@asynccontextmanager
async def staged(
    folder: Path, url: str, script: dict[str, Any], gateway: str = "", **of_executor: str
) -> AsyncGenerator[Stage]:
    variables = {"HERMES_KEEP_SANDBOXES": "true", **of_executor}
    settings = await asyncio.to_thread(
        lambda: executor_settings(folder / "executor", "bubblewrap", **variables)
    )
    executor = Process(settings)
    async with fake_model(script) as model, executor, Database(url, "agent") as database:
        site = Site(folder, model.url, url, executor.address, executor.tokens, gateway=gateway)
        yield Stage(site, executor, model, database)
        await executor.kill()
    await end_boxes(settings)


async def _watched(client: AgentClient, turn_id: str) -> list[TurnEvent]:
    """Everything of a turn, first as it comes and again when it has ended."""
    live = await client.watch(turn_id)
    again = await client.watch(turn_id)
    assert sequences(live) == sequences(again) == list(range(1, len(sequences(again)) + 1))
    assert kinds(again).count("turn_finished") == 1
    assert kinds(again)[-1] == "turn_finished"
    return live


@pytest.mark.parametrize(
    ("how", "configured"),
    [(signal.SIGKILL, "terminal: {cwd: /usr}\n"), (signal.SIGSTOP, "")],
    ids=["killed-configured-otherwise", "stopped"],
)
async def test_a_turn_goes_on_where_its_owner_left_it(
    tmp_path: Path, postgres_url: str, how: signal.Signals, configured: str
) -> None:
    await asyncio.to_thread(_configure, tmp_path / "second", configured)
    async with (
        staged(tmp_path, postgres_url, SLOW) as stage,
        stage.agent("first") as first,
        stage.agent("second") as second,
        first.client() as before,
        second.client() as after,
    ):
        turn_id = (await before.start("go")).turn_id
        watching = asyncio.create_task(_watched(after, turn_id))
        await stage.has_written("log", "ran")
        first.signal(how)
        events = await watching
        assert answer(events) == "done"
        assert await stage.file("log") == "ran\n"
        assert len(stage.model.requests) == 2
        turn = await after.turns.GetTurn(turn_pb2.GetTurnRequest(turn_id=turn_id))
        assert turn.turn.attempt == 2
        assert await second.metric("hermes_turn_resumes_total") == 1
        if how is signal.SIGSTOP:
            stored = [await stage.rows(table) for table in schema.metadata.sorted_tables]
            first.signal(signal.SIGCONT)

            async def noticed() -> bool:
                return "another owner" in await first.log()

            await until(noticed)
            assert stored == [await stage.rows(table) for table in schema.metadata.sorted_tables]


async def test_a_living_owner_keeps_its_turn_for_longer_than_a_lease(
    tmp_path: Path, postgres_url: str
) -> None:
    async with (
        staged(tmp_path, postgres_url, steps({"text": "done", "latency_s": 4.5})) as stage,
        stage.agent("first") as first,
        stage.agent("second"),
        first.client() as client,
    ):
        turn_id = (await client.start("go")).turn_id
        assert answer(await client.watch(turn_id)) == "done"
        turn = await client.turns.GetTurn(turn_pb2.GetTurnRequest(turn_id=turn_id))
        assert (turn.turn.attempt, len(stage.model.requests)) == (1, 1)


@pytest.mark.parametrize("starts", [False, True])
async def test_a_command_whose_start_nobody_has_heard_of_is_started_once(
    tmp_path: Path, postgres_url: str, starts: bool
) -> None:
    """The agent is killed with the note of a command, before it starts or is known to have."""
    slow_start = {**SLOW["rules"][0]["steps"][0], "latency_s": 0.5}
    script = steps({"tool_calls": [_shell("true")]}, slow_start, TELL)
    async with (
        staged(tmp_path, postgres_url, script) as stage,
        stage.agent("first") as first,
        stage.agent("second") as second,
        first.client() as before,
        second.client() as after,
    ):
        turn_id = (await before.start("go")).turn_id
        await stage.has_steps("DONE")
        stage.executor.signal(signal.SIGSTOP)
        await stage.has_steps("INTENT")
        if starts:
            await asyncio.sleep(0.3)  # for the start to be asked for
            first.signal(signal.SIGSTOP)
            stage.executor.signal(signal.SIGCONT)
            await stage.has_written("log", "ran")
        first.signal(signal.SIGKILL)
        await first.ended()
        stage.executor.signal(signal.SIGCONT)
        assert answer(await after.watch(turn_id)) == "done"
        assert await stage.file("log") == "ran\n"


async def test_a_command_that_went_with_its_sandbox_is_not_run_again(
    tmp_path: Path, postgres_url: str
) -> None:
    script = steps({"tool_calls": [_shell("echo ran >>log; sleep 50")]}, TELL)
    async with (
        staged(tmp_path, postgres_url, script) as stage,
        stage.agent("first") as first,
        first.client() as before,
    ):
        turn_id = (await before.start("go")).turn_id
        await stage.has_written("log", "ran")
        first.signal(signal.SIGKILL)
        await stage.lose_sandboxes()
        async with stage.executor, stage.agent("second") as second, second.client() as after:
            events = await _watched(after, turn_id)
            assert await second.metric("hermes_steps_uncertain_total") == 1
        assert UNCERTAIN in answer(events)
        assert await stage.file("log") == "ran\n"
        await stage.has_steps("UNCERTAIN")


async def test_a_change_that_may_have_been_made_is_not_made_again(
    tmp_path: Path, postgres_url: str
) -> None:
    write = {"name": "write_file", "arguments": {"path": "a", "content": "one"}}
    change = {"mode": "replace", "path": "a", "old_string": "one", "new_string": "oneone"}
    patch = {"name": "patch", "arguments": change}
    script = steps({"tool_calls": [write]}, {"tool_calls": [patch], "latency_s": 0.5}, TELL)
    async with (
        staged(tmp_path, postgres_url, script) as stage,
        stage.agent("first") as first,
        first.client() as before,
    ):
        turn_id = (await before.start("go")).turn_id
        await stage.model.until(lambda: len(stage.model.requests) == 2)
        stage.executor.signal(signal.SIGSTOP)
        await stage.has_steps("DISPATCHED")
        first.signal(signal.SIGKILL)
        stage.executor.signal(signal.SIGCONT)
        async with stage.agent("second") as second, second.client() as after:
            events = await _watched(after, turn_id)
        assert UNCERTAIN in answer(events)
        assert await stage.file("a") == "one"


async def test_what_only_looks_is_done_again_where_everything_was_lost(
    tmp_path: Path, postgres_url: str
) -> None:
    write = {"name": "write_file", "arguments": {"path": "a", "content": "only one line"}}
    read = {"name": "read_file", "arguments": {"path": "a"}}
    script = steps({"tool_calls": [write]}, {"tool_calls": [read], "latency_s": 0.5}, TELL)
    async with (
        staged(tmp_path, postgres_url, script) as stage,
        stage.agent("first") as first,
        first.client() as before,
    ):
        turn_id = (await before.start("go")).turn_id
        await stage.model.until(lambda: len(stage.model.requests) == 2)
        stage.executor.signal(signal.SIGSTOP)
        await stage.has_steps("INTENT")
        first.signal(signal.SIGKILL)
        await stage.lose_sandboxes()
        async with stage.executor, stage.agent("second") as second, second.client() as after:
            events = await _watched(after, turn_id)
            assert await second.metric("hermes_steps_uncertain_total") == 0
        assert "only one line" in answer(events)
        await stage.has_steps("DONE", 2)


async def test_a_turn_that_is_lost_again_and_again_is_given_to_a_person(
    tmp_path: Path, postgres_url: str
) -> None:
    async with staged(tmp_path, postgres_url, steps(HANGS)) as stage:
        turn_id = ""
        for number, how in enumerate([signal.SIGTERM, *[signal.SIGKILL] * 3], 1):
            async with stage.agent("same") as agent, agent.client() as client:
                turn_id = turn_id or (await client.start("go")).turn_id
                await stage.model.until(lambda n=number: len(stage.model.requests) == n)
                agent.signal(how)
                await agent.ended()
        async with stage.agent("same") as agent, agent.client() as client:
            events = await _watched(client, turn_id)
        review = events[-1].turn_finished.needs_review
        assert "lost 3 times" in str(review)
        assert len(stage.model.requests) == 4


async def test_results_keep_the_order_of_their_calls(tmp_path: Path, postgres_url: str) -> None:
    calls = [_shell(f"echo {n} >>log; sleep {s}; echo {n}") for n, s in ("a0", "b3", "c0")]
    script = steps({"tool_calls": calls}, TELL)
    async with (
        staged(tmp_path, postgres_url, script) as stage,
        stage.agent("first") as first,
        first.client() as before,
    ):
        turn_id = (await before.start("go")).turn_id
        await stage.has_steps("DONE", 2)
        first.signal(signal.SIGKILL)
        async with stage.agent("second") as second, second.client() as after:
            await _watched(after, turn_id)
        asked = stage.model.bodies[1]["messages"]
        results = [message for message in asked if message["role"] == "tool"]
        assert [result["content"] for result in results] == ["a", "b", "c"]
        (said,) = [message for message in asked if message["role"] == "assistant"]
        assert [r["tool_call_id"] for r in results] == [c["id"] for c in said["tool_calls"]]
        assert sorted((await stage.file("log")).split()) == ["a", "b", "c"]


Reached = Callable[[Stage, AgentClient, str], Coroutine[Any, Any, object]]


async def _model_was_asked(stage: Stage, _client: AgentClient, _turn_id: str) -> None:
    await stage.model.until(lambda: len(stage.model.requests) == 1)


async def _command_runs(stage: Stage, _client: AgentClient, _turn_id: str) -> None:
    await stage.has_written("log", "ran")


async def _person_was_asked(_stage: Stage, client: AgentClient, turn_id: str) -> None:
    await client.until(turn_id, "approval_requested")


@pytest.mark.parametrize(
    ("reached", "script"),
    [
        (_model_was_asked, steps(HANGS)),
        (_command_runs, steps({"tool_calls": [_shell("echo ran >>log; sleep 50")]})),
        (_person_was_asked, steps({"tool_calls": [_shell("rm -r src; echo ran >>log")]})),
    ],
)
async def test_an_interrupted_turn_ends_once(
    tmp_path: Path, postgres_url: str, reached: Reached, script: dict[str, Any]
) -> None:
    async with staged(tmp_path, postgres_url, script) as stage:
        if reached is _person_was_asked:
            await asyncio.to_thread(_configure, tmp_path / "only", "approvals: {mode: manual}\n")
        async with stage.agent("only") as agent, agent.client() as client:
            turn_id = (await client.start("go")).turn_id
            await reached(stage, client, turn_id)
            for _ in range(2):
                await client.turns.InterruptTurn(turn_pb2.InterruptTurnRequest(turn_id=turn_id))
            events = await _watched(client, turn_id)
        cancelled = events[-1].turn_finished.cancelled
        assert events[-1].turn_finished.HasField("cancelled")
        assert (cancelled.survivor_count, cancelled.message) == (0, "")


@pytest.mark.parametrize("is_first", [True, False])
async def test_an_interrupt_reaches_a_command_whose_agent_was_killed(
    tmp_path: Path, postgres_url: str, is_first: bool
) -> None:
    marker = f"50.{secrets.randbelow(10**9):09}"
    script = steps({"tool_calls": [_shell(f"echo ran >>log; sleep {marker}")]})
    async with (
        staged(tmp_path, postgres_url, script) as stage,
        stage.agent("first") as first,
        stage.agent("second") as second,
        first.client() as before,
        second.client() as after,
    ):
        turn_id = (await before.start("go")).turn_id
        await _command_runs(stage, before, turn_id)
        interrupt = turn_pb2.InterruptTurnRequest(turn_id=turn_id)
        if is_first:
            await after.turns.InterruptTurn(interrupt)
            first.signal(signal.SIGKILL)
        else:
            first.signal(signal.SIGKILL)
            await after.turns.InterruptTurn(interrupt)
        events = await _watched(after, turn_id)
        assert await asyncio.to_thread(with_marker, marker) == []
    cancelled = events[-1].turn_finished.cancelled
    assert events[-1].turn_finished.HasField("cancelled")
    assert (cancelled.survivor_count, cancelled.message) == (0, "")


async def test_an_interrupt_that_reaches_no_sandbox_says_so(
    tmp_path: Path, postgres_url: str
) -> None:
    script = steps({"tool_calls": [_shell("echo ran >>log; sleep 50")]})
    async with staged(tmp_path, postgres_url, script) as stage:
        async with stage.agent("only") as agent, agent.client() as client:
            turn_id = (await client.start("go")).turn_id
            await _command_runs(stage, client, turn_id)
            await stage.executor.kill()
            await client.turns.InterruptTurn(turn_pb2.InterruptTurnRequest(turn_id=turn_id))
            events = await _watched(client, turn_id)
        assert "may still be running" in events[-1].turn_finished.cancelled.message
        (told,) = [e.tool_finished.preview for e in events if e.HasField("tool_finished")]
        assert "may still be running" in told


def _configure(home: Path, settings: str) -> None:
    home.mkdir()
    (home / "config.yaml").write_text(settings)
