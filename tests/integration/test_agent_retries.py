"""A turn that takes the last one back and says its message again, through the real loop."""

from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from hermes.agent.v1 import session_pb2, turn_pb2
from hermes.agent.v1.session_pb2_grpc import SessionServiceStub
from services.errors import Reason, reason_of
from tests.fakes.model import fake_model
from tests.integration.agent_parts import AgentClient, agent, answer

WRITE: dict[str, Any] = {"tool_calls": [{"name": "todo", "arguments": {}}]}
SCRIPT: dict[str, Any] = {
    "rules": [
        {"user": "slow", "steps": [{"text": "late", "latency_s": 30}]},
        {"user": "plan", "steps": [WRITE, {"text": "planned"}]},
        {"steps": [{"text": "re: {user}"}]},
    ]
}


async def retry(
    client: AgentClient,
    turn_id: str,
    mode: turn_pb2.BusyMode.ValueType = turn_pb2.BUSY_MODE_INTERRUPT,
) -> turn_pb2.Turn:
    request = turn_pb2.StartTurnRequest(
        turn_id=turn_id, session_id="session", busy_mode=mode, retries=True
    )
    request.parts.add(text="/retry")
    request.origin.platform = "cli"
    return (await client.turns.StartTurn(request)).turn


async def shown(client: AgentClient) -> list[str]:
    request = session_pb2.ListMessagesRequest(session_id="session")
    stub = SessionServiceStub(client.channels.to("agent"))
    return [m.text for m in (await stub.ListMessages(request)).messages]


async def test_it_says_the_last_message_again_once(tmp_path: Path, database_url: str) -> None:
    async with (
        fake_model(SCRIPT) as model,
        agent(tmp_path, model.url, HERMES_DATABASE_URL=database_url) as client,
    ):
        await client.ask("hello")
        await client.ask("plan it")
        for _ in range(2):
            turn = await retry(client, "trn_again")
            assert answer(await client.watch(turn.turn_id)) == "planned"
        assert len(model.requests) == 5
        contents = [m["content"] for m in model.bodies[-1]["messages"] if m["role"] != "tool"]
        assert contents[1:] == ["hello", "re: hello", "plan it", None]
        assert (await shown(client))[-4::3] == ["plan it", "planned"]
        assert answer(await client.ask("and on")) == "re: and on"
        assert [m["content"] for m in model.bodies[-1]["messages"]].count("plan it") == 1


async def test_it_stops_a_turn_that_runs_and_begins_it_again(tmp_path: Path) -> None:
    async with fake_model(SCRIPT) as model, agent(tmp_path, model.url) as client:
        first = await client.start("be slow")
        await model.until(lambda: len(model.requests) == 1)
        await retry(client, "trn_again")
        assert (await client.watch(first.turn_id))[-1].turn_finished.HasField("cancelled")
        await model.until(lambda: len(model.requests) == 2)
        assert model.bodies[0]["messages"] == model.bodies[1]["messages"]


async def test_one_that_was_begun_is_not_begun_again_after_a_restart(tmp_path: Path) -> None:
    async with fake_model(SCRIPT) as model:
        async with agent(tmp_path, model.url) as client:
            await client.ask("hello")
            await client.start("be slow")
            await retry(client, "trn_again")
            await model.until(lambda: len(model.requests) == 3)
        async with agent(tmp_path, model.url) as client:
            await model.until(lambda: len(model.requests) == 4)
            assert [m["content"] for m in model.bodies[3]["messages"]][1:] == [
                *("hello", "re: hello", "be slow")
            ]
            assert await shown(client) == ["hello", "re: hello", "be slow"]


async def test_where_nothing_was_said_there_is_nothing_to_say_again(tmp_path: Path) -> None:
    async with fake_model(SCRIPT) as model, agent(tmp_path, model.url) as client:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await retry(client, "trn_again")
        assert reason_of(refused.value) is Reason.FAILED_PRECONDITION
        stub = SessionServiceStub(client.channels.to("agent"))
        listed = await stub.ListSessions(session_pb2.ListSessionsRequest())
        assert not listed.sessions
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await retry(client, "trn_again", turn_pb2.BUSY_MODE_STEER)
        assert reason_of(refused.value) is Reason.INVALID_ARGUMENT
        assert not model.requests
