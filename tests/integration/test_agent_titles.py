"""Titles that a model makes, asked over HTTP beside the turns of a running agent."""

import asyncio
from pathlib import Path
from typing import Any

from hermes.agent.v1 import session_pb2, turn_pb2, usage_pb2
from hermes.agent.v1.session_pb2_grpc import SessionServiceStub
from hermes.agent.v1.usage_pb2_grpc import UsageServiceStub
from tests.fakes.model import FakeModel, answers, fake_model
from tests.integration.agent_parts import AgentClient, agent, answer
from tests.support.executors import until

NAMING = "Name this conversation"
CONFIG = "auxiliary: {title: {model: namer}}\n"
SECRET = "very-secret-key-of-the-model"
FIRST = "Please look why nobody can log in any more"


def script(*naming: dict[str, Any]) -> dict[str, Any]:
    """What names conversations, and what answers in them."""
    answered = {"text": "The disk is full.", "usage": {"prompt_tokens": 9, "completion_tokens": 1}}
    return {"rules": [{"user": NAMING, "steps": [list(naming)]}, {"steps": [answered]}]}


def named(text: str, **more: Any) -> dict[str, Any]:
    return {"text": text, "usage": {"prompt_tokens": 70, "completion_tokens": 7}, **more}


async def configure(home: Path, text: str = CONFIG) -> None:
    await asyncio.to_thread((home / "config.yaml").write_text, text, "utf-8")


def asked_for_titles(model: FakeModel) -> list[dict[str, Any]]:
    return [body for body in model.bodies if NAMING in str(body["messages"][-1])]


async def session(client: AgentClient) -> session_pb2.Session:
    stub = SessionServiceStub(client.channels.to("agent"))
    (found,) = (await stub.ListSessions(session_pb2.ListSessionsRequest())).sessions
    return found


async def rename(client: AgentClient, title: str) -> None:
    stub = SessionServiceStub(client.channels.to("agent"))
    await stub.RenameSession(session_pb2.RenameSessionRequest(session_id="session", title=title))


async def titled(client: AgentClient, title: str) -> session_pb2.Session:
    async def has_title() -> bool:
        return (await session(client)).title == title

    await until(has_title)
    return await session(client)


async def used(client: AgentClient) -> usage_pb2.GetUsageResponse:
    stub = UsageServiceStub(client.channels.to("agent"))
    return await stub.GetUsage(usage_pb2.GetUsageRequest(session_id="session"))


async def until_used(client: AgentClient, call_count: int) -> None:
    async def has_used() -> bool:
        return (await used(client)).total.call_count == call_count

    await until(has_used)


async def test_a_model_names_a_new_session_once_and_is_counted(tmp_path: Path) -> None:
    await configure(tmp_path)
    async with (
        fake_model(script(named(f'"Login fails, key {SECRET}."'))) as model,
        agent(tmp_path, model.url, HERMES_API_KEY=SECRET) as client,
    ):
        assert answer(await client.ask(f"{FIRST} with {SECRET}")) == "The disk is full."
        found = await titled(client, "Login fails, key [REDACTED]")
        assert (found.usage.call_count, found.usage.prompt_tokens) == (2, 79)
        assert (await used(client)).total.prompt_tokens == 79
        await client.ask("and now?")
        (asked,) = asked_for_titles(model)
        assert asked["model"] == "namer"
        assert "tools" not in asked
        assert "The disk is full." in str(asked["messages"][-1])
        assert SECRET not in str(asked)
        # The conversation knows nothing of it.
        second = model.bodies[-1]["messages"]
        assert [message["role"] for message in second] == ["system", "user", "assistant", "user"]
        assert (await session(client)).usage.prompt_tokens == 88


async def test_the_title_of_a_person_wins(tmp_path: Path) -> None:
    await configure(tmp_path)
    async with (
        fake_model(script(named("Made", latency_s=1.0))) as model,
        agent(tmp_path, model.url) as client,
    ):
        await client.ask(FIRST)
        await model.until(lambda: len(asked_for_titles(model)) == 1)
        await rename(client, "mine")
        await until_used(client, 2)
        assert (await session(client)).title == "mine"


async def test_no_title_is_asked_for_beyond_the_budget(tmp_path: Path) -> None:
    await configure(tmp_path, f"{CONFIG}budget: {{session: {{tokens: 60000}}}}\n")
    first = {"text": "Yes.", "usage": {"prompt_tokens": 59_000, "completion_tokens": 1}}
    rules = {"rules": [{"user": NAMING, "steps": [named("Made")]}, {"steps": [first]}]}
    async with fake_model(rules) as model, agent(tmp_path, model.url) as client:
        assert answer(await client.ask(FIRST)) == "Yes."
        await asyncio.sleep(1)
        assert asked_for_titles(model) == []
        assert (await session(client)).title == FIRST


async def test_the_model_of_the_conversation_names_only_where_it_is_told_to(tmp_path: Path) -> None:
    for said, is_asked in (("", False), ("auxiliary: {title: {provider: main}}\n", True)):
        home = tmp_path / str(is_asked)
        await asyncio.to_thread(home.mkdir)
        await configure(home, said)
        async with fake_model(script(named("Made"))) as model, agent(home, model.url) as client:
            await client.ask(FIRST)
            if is_asked:
                await titled(client, "Made")
                assert model.bodies[1]["model"] == "scripted"
            else:
                await asyncio.sleep(0.5)
                assert len(model.bodies) == 1
                assert (await session(client)).title == FIRST


async def test_a_chat_that_begins_with_a_command_is_named_after_what_is_said_first(
    tmp_path: Path,
) -> None:
    async with fake_model(answers({"text": "Yes."})) as model, agent(tmp_path, model.url) as client:
        started = await client.start("/compress", kind=turn_pb2.TURN_KIND_COMPRESS)
        await client.watch(started.turn_id)
        assert (await session(client)).title == ""
        for said in (FIRST, "And then?"):
            await client.ask(said)
            assert (await session(client)).title == FIRST
