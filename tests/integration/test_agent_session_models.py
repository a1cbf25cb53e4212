"""The model that a session is given: of its later turns alone, beside a prompt that stays."""

from pathlib import Path

import grpc.aio
import pytest

from hermes.agent.v1 import session_change_pb2, session_pb2
from hermes.agent.v1.session_pb2_grpc import SessionServiceStub
from services.errors import Reason, reason_of
from tests.fakes.model import answers, fake_model
from tests.integration.agent_parts import AgentClient, agent, answer

WELL = answers({"text": "well"})


async def choose(client: AgentClient, model: str, **fields: str) -> None:
    stub = SessionServiceStub(client.channels.to("agent"))
    values = {"session_id": "session", "model": model, **fields}
    await stub.SetSessionModel(session_change_pb2.SetSessionModelRequest(**values))


async def chosen(client: AgentClient) -> str:
    stub = SessionServiceStub(client.channels.to("agent"))
    found = await stub.GetSession(session_pb2.GetSessionRequest(session_id="session"))
    [listed] = (await stub.ListSessions(session_pb2.ListSessionsRequest())).sessions
    assert listed.model == found.session.model
    return found.session.model


async def test_later_turns_have_it_and_the_prompt_stays(tmp_path: Path, database_url: str) -> None:
    async with fake_model(WELL) as model:
        async with agent(tmp_path, model.url, HERMES_DATABASE_URL=database_url) as client:
            assert answer(await client.ask("one")) == "well"
            assert await chosen(client) == ""
            for _ in range(2):
                await choose(client, "other/model")
            assert answer(await client.ask("two")) == "well"
        async with agent(tmp_path, model.url, HERMES_DATABASE_URL=database_url) as client:
            await client.ask("three")
            assert await chosen(client) == "other/model"
            await choose(client, "")
            await client.ask("four")
            await client.ask("elsewhere", session_id="another")
        names = [body["model"] for body in model.bodies]
        assert names[1:3] == ["other/model"] * 2
        assert names[0] == names[3] == names[4] != "other/model"
        prompts = {body["messages"][0]["content"] for body in model.bodies[:4]}
        assert len(prompts) == 1
        said = [message["content"] for message in model.bodies[3]["messages"][1::2]]
        assert said == ["one", "two", "three", "four"]


async def test_it_is_given_before_anything_is_said(tmp_path: Path) -> None:
    async with fake_model(WELL) as model, agent(tmp_path, model.url) as client:
        await choose(client, "other/model", platform="telegram")
        await client.ask("what is up?")
        assert [body["model"] for body in model.bodies] == ["other/model"]
        stub = SessionServiceStub(client.channels.to("agent"))
        found = await stub.GetSession(session_pb2.GetSessionRequest(session_id="session"))
        assert (found.session.title, found.session.platform) == ("what is up?", "telegram")


async def test_what_is_no_model_or_anothers_session_is_refused(tmp_path: Path) -> None:
    async with fake_model(WELL) as model, agent(tmp_path, model.url) as client:
        await client.ask("one")
        for wrong, fields, reason in (
            ("two words", {}, Reason.INVALID_ARGUMENT),
            ("x" * 201, {}, Reason.INVALID_ARGUMENT),
            ("m", {"session_id": ""}, Reason.INVALID_ARGUMENT),
            ("m", {"profile": "work"}, Reason.NOT_FOUND),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await choose(client, wrong, **fields)
            assert reason_of(refused.value) is reason
        assert await chosen(client) == ""


async def test_reasoning_goes_back_after_a_restart_to_the_model_it_is_from(tmp_path: Path) -> None:
    thought = {"reasoning": "Hm.", "reasoning_field": "reasoning_content"}
    async with fake_model(answers({"text": "well", **thought}, {"text": "well"})) as model:
        async with agent(tmp_path, model.url) as client:
            await client.ask("one")
        async with agent(tmp_path, model.url) as client:
            await client.ask("two")
            await choose(client, "other/model")
            await client.ask("three")
        same, other = (body["messages"][2] for body in model.bodies[1:])
    assert same == {"role": "assistant", "content": "well", "reasoning_content": "Hm."}
    assert other == {"role": "assistant", "content": "well"}
