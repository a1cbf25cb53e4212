"""What holds for whoever hands work over holds for its subagents: budgets, sandboxes, models."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from agent_service.storage.schema import session
from hermes.agent.v1 import session_change_pb2, session_pb2, turn_pb2
from hermes.agent.v1.session_pb2_grpc import SessionServiceStub
from hermes.agent.v1.turn_event_pb2 import TurnEvent
from hermes.common.v1.content_pb2 import MessagePart
from hermes.common.v1.origin_pb2 import Origin
from services.database import Database
from tests.fakes.model import fake_model
from tests.integration.agent_parts import AgentClient, agent, answer
from tests.integration.test_agent_fallback import chain_to, models_of

TELL = {"text": "{tool_result}"}
JOB_RUN = "cron_0123456789ab_20261121_101500"
MUCH = {"prompt_tokens": 40_000, "completion_tokens": 10}


def _script(*rules: dict[str, Any], **used: Any) -> dict[str, Any]:
    call = {"name": "delegate_task", "arguments": {"goal": "small job", "toolsets": ["todo"]}}
    return {"rules": [*rules, {"steps": [{"tool_calls": [call], **used}, {**TELL, **used}]}]}


def _small_job(**used: Any) -> dict[str, Any]:
    return {"user": "small job", "steps": [{"text": "done", **used}]}


async def _configure(home: Path, text: str) -> None:
    await asyncio.to_thread((home / "config.yaml").write_text, text, "utf-8")


async def _run(client: AgentClient, session_id: str, **wanted: Any) -> Sequence[TurnEvent]:
    request = turn_pb2.StartTurnRequest(
        turn_id=f"trn_{session_id}",
        session_id=session_id,
        parts=[MessagePart(text="please delegate")],
        origin=Origin(platform="cli"),
        **wanted,
    )
    await client.turns.StartTurn(request)
    return await client.watch(request.turn_id)


@pytest.mark.parametrize(
    ("scope", "session_id", "named"),
    [("session", "session", "This session's budget"), ("job", JOB_RUN, "This job's budget")],
)
async def test_what_subagents_use_is_charged_to_who_asked_for_them(
    tmp_path: Path, database_url: str, scope: str, session_id: str, named: str
) -> None:
    # Room for two calls of the three that it takes.
    await _configure(
        tmp_path, f"model: {{max_tokens: 500}}\nbudget: {{{scope}: {{tokens: 80030}}}}\n"
    )
    async with (
        fake_model(_script(_small_job(usage=MUCH), usage=MUCH)) as model,
        agent(tmp_path, model.url, HERMES_DATABASE_URL=database_url) as client,
    ):
        ended = (await _run(client, session_id))[-1].turn_finished
    assert ended.WhichOneof("outcome") == "limit_reached"
    assert named in ended.limit_reached.message
    assert "80,020 tokens of 80,030 tokens" in ended.limit_reached.message
    assert len(model.requests) == 2


async def test_a_subagent_makes_no_call_past_the_budget_of_who_asked_for_it(tmp_path: Path) -> None:
    await _configure(
        tmp_path,
        "model: {max_tokens: 500}\nbudget: {session: {tokens: 40030}, warn_percent: 100}\n",
    )
    async with (
        fake_model(_script(_small_job(), usage=MUCH)) as model,
        agent(tmp_path, model.url) as client,
    ):
        await _run(client, "session")
        stub = SessionServiceStub(client.channels.to("agent"))
        listed = await stub.ListSessions(session_pb2.ListSessionsRequest(platform="subagent"))
    assert len(model.requests) == 1
    (own,) = listed.sessions
    assert own.usage.call_count == 0
    assert own.parent_session_id == "session"


async def test_a_subagents_sandbox_is_of_the_kind_of_who_asked_for_it(
    tmp_path: Path, database_url: str
) -> None:
    async with fake_model(_script(_small_job())) as model:
        async with agent(tmp_path, model.url, HERMES_DATABASE_URL=database_url) as client:
            told = answer(await _run(client, "session", sandbox_template="walled"))
        async with Database(database_url, "agent") as database:
            templates = await database.read(
                lambda conn: conn.scalars(sa.select(session.c.sandbox_template)).all()
            )
    assert told == "done"
    assert templates == ["walled", "walled"]


async def test_a_subagent_asks_for_the_first_model_also_where_another_has_taken_over(
    tmp_path: Path,
) -> None:
    refused = {"status": 429, "headers": {"retry-after": "0"}}
    busy = {"rules": [_small_job(), {"steps": [[refused]]}]}
    async with fake_model(busy) as first, fake_model(_script()) as other:
        await chain_to(tmp_path, other)
        async with agent(tmp_path, first.url) as client:
            told = answer(await _run(client, "session"))
    assert told == "done"
    assert models_of(first) == ["scripted", "scripted"]
    assert models_of(other) == ["other-1", "other-1"]


@pytest.mark.parametrize("is_named", [False, True])
async def test_what_subagents_said_is_deleted_with_who_asked_unless_somebody_has_named_it(
    tmp_path: Path, *, is_named: bool
) -> None:
    async with fake_model(_script(_small_job())) as model, agent(tmp_path, model.url) as client:
        await _run(client, "session")
        stub = SessionServiceStub(client.channels.to("agent"))
        listed = await stub.ListSessions(session_pb2.ListSessionsRequest(platform="subagent"))
        (own,) = listed.sessions
        if is_named:
            renamed = session_pb2.RenameSessionRequest(session_id=own.session_id, title="kept")
            await stub.RenameSession(renamed)
        await stub.DeleteSession(session_change_pb2.DeleteSessionRequest(session_id="session"))
        left = (await stub.ListSessions(session_pb2.ListSessionsRequest())).sessions
    kept = [("kept", "")] if is_named else []
    assert [(one.title, one.parent_session_id) for one in left] == kept


async def test_what_a_person_has_branched_off_a_subagent_stays(tmp_path: Path) -> None:
    async with fake_model(_script(_small_job())) as model, agent(tmp_path, model.url) as client:
        await _run(client, "session")
        stub = SessionServiceStub(client.channels.to("agent"))
        listed = await stub.ListSessions(session_pb2.ListSessionsRequest(platform="subagent"))
        (own,) = listed.sessions
        branch = session_pb2.BranchSessionRequest(
            session_id=own.session_id, new_session_id="branch"
        )
        await stub.BranchSession(branch)
        await stub.DeleteSession(session_change_pb2.DeleteSessionRequest(session_id="session"))
        left = (await stub.ListSessions(session_pb2.ListSessionsRequest())).sessions
    assert [one.session_id for one in left] == ["branch"]
