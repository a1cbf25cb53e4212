"""Instructions, first messages and personalities of sessions, through the real loop."""

import asyncio
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
import sqlalchemy as sa

from agent_service.storage.schema import session
from hermes.agent.v1 import catalog_pb2, session_change_pb2, session_pb2, turn_pb2
from hermes.agent.v1.catalog_pb2_grpc import CatalogServiceStub
from hermes.agent.v1.session_pb2_grpc import SessionServiceStub
from hermes.common.v1.origin_pb2 import TRUST_OWNER, Origin
from services.database import Database
from services.errors import Reason, reason_of
from tests.fakes.model import FakeModel, answers, fake_model
from tests.integration.agent_parts import AgentClient, agent, answer

WELL = answers({"text": "well"})
YAML = """
agent:
  ephemeral_system_prompt: Answer in German.
  prefill_messages:
    - {role: user, content: "Wie geht es?"}
    - {role: assistant, content: Gut.}
  personalities: {Gruff: Grumble.}
"""


def _system(model: FakeModel) -> list[str]:
    return [body["messages"][0]["content"] for body in model.bodies]


def _said(model: FakeModel) -> list[str]:
    return [message["content"] for message in model.bodies[-1]["messages"][1:]]


async def choose(client: AgentClient, name: str, session_id: str = "session") -> None:
    stub = SessionServiceStub(client.channels.to("agent"))
    request = session_change_pb2.SetPersonalityRequest(session_id=session_id, name=name)
    await stub.SetPersonality(request)


async def ask(client: AgentClient, text: str) -> list[str]:
    """Say something; returns what is to be read with the answer."""
    events = await client.ask(text)
    assert answer(events) == "well"
    return [event.notice.text for event in events if event.notice.lasts]


async def test_what_is_configured_goes_with_each_request_and_is_stored_nowhere(
    tmp_path: Path,
) -> None:
    async with fake_model(WELL) as model:
        await asyncio.to_thread((tmp_path / "config.yaml").write_text, YAML)
        async with agent(tmp_path, model.url) as client:
            await ask(client, "one")
        # A session keeps what it began with.
        await asyncio.to_thread(
            (tmp_path / "config.yaml").write_text, "agent: {ephemeral_system_prompt: In French.}"
        )
        async with agent(tmp_path, model.url) as client:
            await ask(client, "two")
            stub = SessionServiceStub(client.channels.to("agent"))
            listed = await stub.ListMessages(session_pb2.ListMessagesRequest(session_id="session"))
            assert [m.text for m in listed.messages] == ["one", "well", "two", "well"]
            wanted = session_pb2.SearchMessagesRequest(query="geht")
            assert not (await stub.SearchMessages(wanted)).hits
            await client.ask("three", session_id="other")
            turn = await client.start("four", session_id="sub", kind=SUBAGENT)
            await client.watch(turn.turn_id)
        first, second, third, sub = _system(model)
        assert first == second
        assert first.endswith("\n\nAnswer in German.")
        assert third.endswith("\n\nIn French.")
        assert "French" not in sub
        assert model.bodies[1]["messages"][1:3] == [
            {"role": "user", "content": "Wie geht es?"},
            {"role": "assistant", "content": "Gut."},
        ]


SUBAGENT = turn_pb2.TURN_KIND_SUBAGENT
JOB = turn_pb2.TURN_KIND_JOB


async def test_a_personality_follows_the_prompt_which_stays(
    tmp_path: Path, database_url: str
) -> None:
    async with fake_model(WELL) as model:
        async with agent(tmp_path, model.url, HERMES_DATABASE_URL=database_url) as client:
            assert await ask(client, "one") == []
            await choose(client, "pirate")
            await choose(client, "pirate")
            [notice] = await ask(client, "two")
            assert "with the personality pirate" in notice
            assert await ask(client, "three") == []
        async with agent(tmp_path, model.url, HERMES_DATABASE_URL=database_url) as client:
            await ask(client, "four")
            catalog = CatalogServiceStub(client.channels.to("agent"))
            request = catalog_pb2.ListPersonalitiesRequest(session_id="session")
            assert (await catalog.ListPersonalities(request)).current_name == "pirate"
            await choose(client, "")
            [notice] = await ask(client, "five")
            assert "without a personality" in notice
        plain, *pirate, again = _system(model)
        assert plain == again
        assert len(set(pirate)) == 1
        assert pirate[0].startswith(f"{plain}\n\nTalk like a pirate")
        assert _said(model)[::2] == ["one", "two", "three", "four", "five"]


async def test_it_can_be_chosen_before_anything_is_said(tmp_path: Path) -> None:
    async with fake_model(WELL) as model, agent(tmp_path, model.url) as client:
        await choose(client, "brief")
        assert await ask(client, "what is up?") == []
        assert "personal assistant" in _system(model)[0]
        assert _system(model)[0].endswith("no offers.")
        stub = SessionServiceStub(client.channels.to("agent"))
        found = await stub.GetSession(session_pb2.GetSessionRequest(session_id="session"))
        assert found.session.title == "what is up?"


async def test_no_turn_is_changed_on_its_way(tmp_path: Path) -> None:
    slow: dict[str, Any] = {"text": "well", "latency_s": 30}
    async with fake_model(answers(slow)) as model, agent(tmp_path, model.url) as client:
        await client.start("work")
        await model.until(lambda: len(model.requests) == 1)
        busy, unknown = Reason.FAILED_PRECONDITION, Reason.INVALID_ARGUMENT
        for name, reason in (("pirate", busy), ("x", unknown)):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await choose(client, name)
            assert reason_of(refused.value) is reason


async def test_a_caller_has_instructions_of_its_own(tmp_path: Path) -> None:
    async with fake_model(WELL) as model, agent(tmp_path, model.url) as client:
        request = turn_pb2.StartTurnRequest(turn_id="trn_1", session_id="session")
        request.parts.add(text="hi")
        request.origin.platform = "api"
        request.overlays.ephemeral_system_prompt = "Be kind."
        request.overlays.prefill_messages.add(role="user", text="first")
        await client.turns.StartTurn(request)
        await client.watch("trn_1")
        assert _system(model)[0].endswith("\n\nBe kind.")
        assert _said(model) == ["first", "[No answer was given here.]", "hi"]
        request.turn_id = "trn_2"
        request.overlays.prefill_messages[0].role = "system"
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await client.turns.StartTurn(request)
        assert reason_of(refused.value) is Reason.INVALID_ARGUMENT


async def test_a_session_is_told_of_the_chat_that_it_began_in(tmp_path: Path) -> None:
    there = Origin(platform="telegram", chat_id="42", user_name="Ada", trust=TRUST_OWNER)
    async with fake_model(WELL) as model, agent(tmp_path, model.url) as client:
        for name in ("Ada", "Ada Lovelace"):
            there.user_name = name
            turn = await client.start("hi", session_id="chat", origin=there)
            await client.watch(turn.turn_id)
        job = await client.start("hi", session_id="job", origin=there, kind=JOB)
        await client.watch(job.turn_id)
    async with Database(f"sqlite:///{tmp_path}/state/agent.db", "agent") as database:
        asked = sa.select(session.c.system_prompt)
        prompts = await database.read(lambda conn: list(conn.scalars(asked)))
    first, second, of_job = _system(model)
    assert "It is telegram:42, a private chat." in first
    assert first == second, "what was told first stays"
    assert "telegram:42" not in of_job
    assert not [prompt for prompt in prompts if "telegram:42" in prompt]
