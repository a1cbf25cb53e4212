"""Commands in the background that the model is told of, through the real loop."""

import asyncio
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent_service.storage.schema import watched_command
from agent_service.turns.background_notifier import turn_id_of
from hermes.agent.v1 import turn_pb2
from hermes.agent.v1.session_change_pb2 import DeleteSessionRequest
from hermes.agent.v1.session_pb2_grpc import SessionServiceStub
from hermes.common.v1.origin_pb2 import Origin
from tests.fakes.deliveries import FakeDeliveries
from tests.integration.agent_parts import answer, kinds
from tests.integration.scheduler_parts import fake_services
from tests.integration.test_agent_takeover import Stage, staged
from tests.support.executors import end_boxes, until

pytestmark = pytest.mark.timeout(120)

CHAT = Origin(platform="telegram", chat_id="42", thread_id="7", user_id="u1")
NOTICE = "Notice of Hermes"
STARTED = {"text": "started"}
HEARD: dict[str, Any] = {"user": NOTICE, "steps": [{"text": "heard"}]}


def _shell(command: str, **more: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": "terminal", "arguments": {"command": command, **more}}]}


def _watched(command: str, **more: Any) -> dict[str, Any]:
    return _shell(command, background=True, **(more or {"notify_on_complete": True}))


def _script(*steps: dict[str, Any], heard: dict[str, Any] = HEARD) -> dict[str, Any]:
    return {"rules": [heard, {"steps": list(steps)}]}


@asynccontextmanager
async def _watching(
    folder: Path, url: str, script: dict[str, Any], **of_executor: str
) -> AsyncGenerator[tuple[Stage, FakeDeliveries]]:
    async with (
        fake_services() as wire,
        staged(folder, url, script, gateway=wire.address, **of_executor) as stage,
    ):
        yield stage, wire.deliveries


def _told(stage: Stage) -> list[str]:
    """What the model was told as a message of its own."""
    said = [m["content"] for m in stage.model.bodies[-1]["messages"] if m["role"] == "user"]
    return [text for text in said if NOTICE in text]


async def _forgotten(stage: Stage) -> None:
    async def none_left() -> bool:
        return not await stage.rows(watched_command)

    await until(none_left)


async def test_the_end_of_a_command_is_a_turn_of_its_own_whose_answer_is_sent(
    tmp_path: Path, postgres_url: str
) -> None:
    command = "echo one; echo two >&2; sleep 1; exit 3"
    async with (
        _watching(tmp_path, postgres_url, _script(_watched(command), STARTED)) as (
            stage,
            deliveries,
        ),
        stage.agent("only") as process,
        process.client() as client,
    ):
        turn = await client.start("go", origin=CHAT)
        assert answer(await client.watch(turn.turn_id)) == "started"
        assert await deliveries.delivered(1) == ["heard"]
        await _forgotten(stage)
        notice = turn_id_of(f"{turn.turn_id}:2", 1)
        [sent] = deliveries.requests.values()
        assert (sent.delivery_id, sent.origin.chat_id) == (notice, "42")
        assert sent.origin.thread_id == "7"
        found = await client.turns.GetTurn(turn_pb2.GetTurnRequest(turn_id=notice))
        assert found.turn.kind == turn_pb2.TURN_KIND_NOTICE
    [told] = _told(stage)
    assert f"has ended, exit code 3: session_id {turn.turn_id}:2, `{command}`" in told
    assert "\n| one\n| two]" in told
    bodies = stage.model.bodies
    assert bodies[2]["tools"] == bodies[0]["tools"]
    assert bodies[2]["messages"][: len(bodies[1]["messages"])] == bodies[1]["messages"]


async def test_it_joins_the_work_in_progress(tmp_path: Path, postgres_url: str) -> None:
    script = _script(_watched("true"), _shell("sleep 4"), {"text": "done"})
    async with _watching(tmp_path, postgres_url, script) as (stage, deliveries):
        async with stage.agent("only") as process, process.client() as client:
            turn = await client.start("go", origin=CHAT)
            assert answer(await client.watch(turn.turn_id)) == "done"
            await _forgotten(stage)
            notice = await client.watch(turn_id_of(f"{turn.turn_id}:2", 1))
            assert kinds(notice) == ["turn_finished"]
        assert deliveries.texts == []
    result = stage.model.bodies[-1]["messages"][-1]["content"]
    assert result.startswith("[no output]\n\n[Notice of Hermes, and not the user's words.")
    assert len(stage.model.requests) == 3


async def test_what_the_model_has_seen_itself_is_not_told(
    tmp_path: Path, postgres_url: str
) -> None:
    wait = {"name": "process", "arguments": {"action": "wait", "session_id": "trn_go:2"}}
    script = _script(_watched("sleep 1"), {"tool_calls": [wait]}, {"text": "done"})
    async with _watching(tmp_path, postgres_url, script) as (stage, deliveries):
        async with stage.agent("only") as process, process.client() as client:
            turn = await client.start("go", turn_id="trn_go", origin=CHAT)
            assert answer(await client.watch(turn.turn_id)) == "done"
            await _forgotten(stage)
        assert deliveries.texts == []
    assert len(stage.model.requests) == 3


async def test_lines_that_match_are_told_once_and_together(
    tmp_path: Path, postgres_url: str
) -> None:
    command = (
        "echo starting; printf 'READY on 80'; sleep 1; echo; "
        "for i in $(seq 50); do echo READY $i; echo ERROR $i >&2; done; sleep 60"
    )
    watched = _watched(command, watch_patterns=["READY", "ERROR 50"])
    async with _watching(tmp_path, postgres_url, _script(watched, STARTED)) as (stage, deliveries):
        async with stage.agent("only") as process, process.client() as client:
            turn = await client.start("go", origin=CHAT)
            await deliveries.delivered(1)
            await asyncio.sleep(5)
        assert deliveries.texts == ["heard"]
    [told] = _told(stage)
    assert "starting" not in told.partition("`.")[2]
    assert "\n| READY on 80\n" in told
    assert "| READY 19\n" in told
    assert "more lines match" in told
    assert turn.turn_id in told


@pytest.mark.parametrize("moment", ["the command runs", "the model is told"])
async def test_who_was_told_of_nothing_before_a_kill_is_told_once_after_it(
    tmp_path: Path, postgres_url: str, moment: str
) -> None:
    slow = {"user": NOTICE, "steps": [{"text": "heard", "latency_s": 2.0}]}
    script = _script(_watched("echo ran >>log; sleep 2"), STARTED, heard=slow)
    async with _watching(tmp_path, postgres_url, script) as (stage, deliveries):
        async with stage.agent("only") as first, first.client() as client:
            turn = await client.start("go", origin=CHAT)
            assert answer(await client.watch(turn.turn_id)) == "started"
            if moment == "the model is told":
                await stage.model.until(lambda: len(stage.model.requests) == 3)
            first.signal(signal.SIGKILL)
        async with stage.agent("only") as second, second.client():
            assert await deliveries.delivered(1) == ["heard"]
            await _forgotten(stage)
        assert deliveries.texts == ["heard"]
        assert deliveries.conflicts == []
        assert await stage.file("log") == "ran\n"
    assert len(_told(stage)) == 1


async def test_another_replica_goes_on_watching(tmp_path: Path, postgres_url: str) -> None:
    script = _script(_watched("sleep 5"), STARTED)
    async with (
        _watching(tmp_path, postgres_url, script) as (stage, deliveries),
        stage.agent("first") as first,
        stage.agent("second"),
        first.client() as client,
    ):
        turn = await client.start("go", origin=CHAT)
        assert answer(await client.watch(turn.turn_id)) == "started"
        first.signal(signal.SIGKILL)
        assert await deliveries.delivered(1) == ["heard"]
        await _forgotten(stage)
    assert deliveries.conflicts == []
    [told] = _told(stage)
    assert "has ended, exit code 0" in told


async def test_a_gateway_that_is_away_is_waited_for(tmp_path: Path, postgres_url: str) -> None:
    async with _watching(tmp_path, postgres_url, _script(_watched("true"), STARTED)) as (
        stage,
        deliveries,
    ):
        deliveries.unreachable = True
        async with stage.agent("only") as process, process.client() as client:
            turn = await client.start("go", origin=CHAT)
            await client.watch(turn.turn_id)
            await stage.model.until(lambda: len(stage.model.requests) == 3)
            await client.watch(turn_id_of(f"{turn.turn_id}:2", 1))
        deliveries.unreachable = False
        async with stage.agent("only"):
            assert await deliveries.delivered(1) == ["heard"]
            await _forgotten(stage)
    assert len(stage.model.requests) == 3


async def test_a_command_that_is_gone_with_its_sandbox_is_told(
    tmp_path: Path, postgres_url: str
) -> None:
    async with _watching(tmp_path, postgres_url, _script(_watched("sleep 90"), STARTED)) as (
        stage,
        deliveries,
    ):
        async with stage.agent("only") as process, process.client() as client:
            turn = await client.start("go")
            await client.watch(turn.turn_id)
        await stage.executor.kill()
        await end_boxes(stage.executor.settings)
        async with stage.executor, stage.agent("only"):
            assert await deliveries.delivered(1) == ["heard"]
            [sent] = deliveries.requests.values()
            assert sent.origin.platform == "cli"
            assert sent.origin.chat_id == "session"
    [told] = _told(stage)
    assert "gone with its sandbox" in told


async def test_a_command_whose_executor_never_comes_back_is_told_once(
    tmp_path: Path, postgres_url: str
) -> None:
    own = f"unix:{tmp_path}/executor/run/hermes.sock"
    script = _script(_watched("sleep 90"), STARTED)
    async with (
        _watching(tmp_path, postgres_url, script, HERMES_EXECUTOR_ENDPOINT=own) as (
            stage,
            deliveries,
        ),
        stage.agent("only") as process,
        process.client() as client,
    ):
        turn = await client.start("go", origin=CHAT)
        await client.watch(turn.turn_id)
        await stage.executor.kill()
        assert await deliveries.delivered(1) == ["heard"]
        await _forgotten(stage)
        assert deliveries.texts == ["heard"]
    [told] = _told(stage)
    assert "is lost: its executor has not answered" in told
    assert "`sleep 90`" in told


async def test_nobody_is_told_of_a_session_that_is_deleted(
    tmp_path: Path, postgres_url: str
) -> None:
    async with _watching(tmp_path, postgres_url, _script(_watched("sleep 2"), STARTED)) as (
        stage,
        deliveries,
    ):
        async with stage.agent("only") as process, process.client() as client:
            turn = await client.start("go", origin=CHAT)
            await client.watch(turn.turn_id)
            sessions = SessionServiceStub(client.channels.to("agent"))
            await sessions.DeleteSession(DeleteSessionRequest(session_id="session"))
            await asyncio.sleep(4)
            log = await process.log()
        assert deliveries.texts == []
        assert "Traceback" not in log
    assert len(stage.model.requests) == 2


NOBODY: tuple[tuple[dict[str, Any], str, str], ...] = (
    ({"notify_on_complete": True}, "telegram", "background: true"),
    ({"watch_patterns": ["x"]}, "telegram", "background: true"),
    ({"background": True, "watch_patterns": [""]}, "telegram", "at least 1 character"),
    ({"background": True, "notify_on_complete": True}, "scheduler", "wait for it"),
)


async def test_where_nobody_can_be_told(tmp_path: Path, postgres_url: str) -> None:
    rules = [
        {"user": f"row {row}", "steps": [_shell("touch ran", **arguments), STARTED]}
        for row, (arguments, _, _) in enumerate(NOBODY)
    ]
    async with _watching(tmp_path, postgres_url, {"rules": rules}) as (stage, _):
        async with stage.agent("only") as process, process.client() as client:
            for row, (_, platform, why) in enumerate(NOBODY):
                origin = Origin(platform=platform, chat_id="1")
                turn = await client.start(f"row {row}", session_id=f"s-{row}", origin=origin)
                await client.watch(turn.turn_id)
                assert why in stage.model.bodies[-1]["messages"][-1]["content"]
        assert await stage.rows(watched_command) == []
