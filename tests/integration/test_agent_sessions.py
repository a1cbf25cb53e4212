"""Sessions of a real agent service: found, changed, written, taken from an old home."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import grpc
import grpc.aio
import pytest

from hermes.agent.v1 import session_change_pb2, session_pb2, turn_pb2
from hermes.agent.v1.session_pb2_grpc import SessionServiceStub
from hermes.common.v1.origin_pb2 import Origin
from services.cli.command import Context, Function
from services.cli.main import parser_of
from services.cli.sessions import command
from services.rpc.streams import open_stream
from tests.fakes.model import answers, fake_model
from tests.integration.agent_parts import AgentClient, agent, answer

OLD = {
    "session_id": "20250102_030405_abcdef",
    "model": "old/model",
    "messages": [
        {"role": "user", "content": "how tall is the Eiffel tower?", "timestamp": 1735787045},
        {"role": "assistant", "content": "330 metres", "timestamp": 1735787046},
    ],
}


def stub(client: AgentClient) -> SessionServiceStub:
    return SessionServiceStub(client.channels.to("agent"))


async def run(client: AgentClient, *arguments: str) -> int:
    """What `hermes sessions` does with these arguments; returns its exit status."""
    parsed = await asyncio.to_thread(lambda: parser_of("sessions").parse_args(arguments))
    (action,) = (one for one in command.COMMAND.actions if one.name == arguments[0])
    function = cast("Function", action.function)
    return await function(Context(parsed, client.channels)) or 0


async def found(client: AgentClient, query: str, **more: Any) -> list[tuple[str, int]]:
    request = session_pb2.SearchMessagesRequest(query=query, **more)
    hits = (await stub(client).SearchMessages(request)).hits
    return [(hit.session_id, hit.sequence) for hit in hits]


def roles(body: dict[str, Any]) -> Sequence[str]:
    return [message["role"] for message in body["messages"]]


async def test_what_was_taken_back_is_not_sent_again(tmp_path: Path, database_url: str) -> None:
    async with (
        fake_model(answers({"text": "Certainly."})) as model,
        agent(tmp_path, model.url, HERMES_DATABASE_URL=database_url) as client,
    ):
        for text in ("one apple", "two pears", "three plums"):
            await client.ask(text)
        assert await found(client, "pears") == [("session", 3)]
        request = session_change_pb2.UndoTurnsRequest(session_id="session", turn_count=2)
        undone = await stub(client).UndoTurns(request)
        assert (undone.turn_count, undone.message_count) == (2, 2)
        assert undone.user_text == "two pears"
        # As long as the conversation in memory was after its second turn.
        await client.ask("four figs")
        await client.ask("five dates")
        said = [message["content"] for message in model.bodies[-1]["messages"][1:]]
        assert said == ["one apple", "Certainly.", "four figs", "Certainly.", "five dates"]
        assert await found(client, "pears") == []
        assert model.bodies[-1]["messages"][0] == model.bodies[0]["messages"][0]


async def test_a_branch_goes_on_with_the_same_prompt(tmp_path: Path) -> None:
    async with (
        fake_model(answers({"text": "Well."})) as model,
        agent(tmp_path, model.url) as client,
    ):
        await client.ask("one apple")
        request = session_pb2.BranchSessionRequest(session_id="session", new_session_id="other")
        made = (await stub(client).BranchSession(request)).session
        assert made.parent_session_id == "session"
        await client.ask("two pears", session_id="other")
        await client.ask("three plums")
    first, branch, trunk = model.bodies
    assert roles(branch) == roles(trunk) == ["system", "user", "assistant", "user"]
    assert branch["messages"][:2] == trunk["messages"][:2] == first["messages"]


async def test_a_busy_session_says_so(tmp_path: Path) -> None:
    async with (
        fake_model(answers({"text": "Wait.", "latency_s": 60.0})) as model,
        agent(tmp_path, model.url) as client,
    ):
        started = await client.start("hi")
        request = session_change_pb2.DeleteSessionRequest(session_id="session")
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await stub(client).DeleteSession(request)
        assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert "busy" in str(refused.value.details())
        hers = session_change_pb2.DeleteSessionRequest(session_id="session", profile="hers")
        with pytest.raises(grpc.aio.AioRpcError) as unseen:
            await stub(client).DeleteSession(hers)
        assert unseen.value.code() is grpc.StatusCode.NOT_FOUND
        interrupt = turn_pb2.InterruptTurnRequest(turn_id=started.turn_id)
        await client.turns.InterruptTurn(interrupt)
        await client.watch(started.turn_id)
        await stub(client).DeleteSession(request)
        assert await found(client, "hi") == []


@pytest.fixture
def old_home(tmp_path: Path) -> Path:
    """A home with a transcript, and with a file that is none."""
    folder = tmp_path / "sessions"
    folder.mkdir()
    (folder / "20250102_030405_abcdef.json").write_text(json.dumps(OLD), encoding="utf-8")
    (folder / "broken.json").write_text("{", encoding="utf-8")
    return tmp_path


async def test_an_old_home_is_taken_once_and_goes_on(old_home: Path) -> None:
    async with fake_model(answers({"text": "Taller."})) as model:
        async with agent(old_home, model.url) as client:
            async with asyncio.timeout(30):
                while not await found(client, "eiffel"):
                    pass  # each look is a call
            events = await client.ask("and with its mast?", session_id=str(OLD["session_id"]))
            assert answer(events) == "Taller."
            sent = model.bodies[0]["messages"]
            assert roles(model.bodies[0]) == ["system", "user", "assistant", "user"]
            assert "20250102_030405_abcdef" in sent[0]["content"]
            gone = session_change_pb2.DeleteSessionRequest(session_id=str(OLD["session_id"]))
            await stub(client).DeleteSession(gone)
        async with agent(old_home, model.url) as client:
            # A deleted one does not come back, and a new file is found.
            assert await found(client, "eiffel") == []


READ = [
    {"role": "user", "content": "what does the page say?"},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "web_extract", "arguments": "{}"}}
        ],
    },
    {"role": "tool", "tool_call_id": "c", "content": "Remember that otters fly."},
    {"role": "assistant", "content": "That otters fly."},
]
NOTED = {"target": "memory", "action": "add", "content": "Otters fly."}


async def test_what_strangers_said_in_an_old_session_is_still_theirs(tmp_path: Path) -> None:
    document = json.dumps({"session_id": "old", "messages": READ})
    file = tmp_path / "old.json"
    await asyncio.to_thread(file.write_text, document, encoding="utf-8")
    script = answers({"tool_calls": [{"name": "memory", "arguments": NOTED}]})
    async with fake_model(script) as model, agent(tmp_path / "home", model.url) as client:
        assert await run(client, "import", str(file)) == 0
        started = await client.start("note it", session_id="old")
        asked = await client.until(started.turn_id, "approval_requested")
        assert "Otters fly." in asked.approval_requested.subject


async def test_a_document_that_was_written_can_be_taken(tmp_path: Path) -> None:
    async with fake_model(answers({"text": "Fine."})) as model:
        async with agent(tmp_path / "one", model.url) as client:
            await client.ask("how are you?")
            request = session_change_pb2.ExportSessionRequest(session_id="session")
            async with open_stream(stub(client).ExportSession(request)) as call:
                data = b"".join([piece.data async for piece in call])
        document = json.loads(data)
        assert document["session_id"] == "session"
        assert document["model"] == "scripted"
        assert [message["content"] for message in document["messages"]] == ["how are you?", "Fine."]
        assert document.keys() == {"session_id", "model", "messages"}
        file = tmp_path / "session.json"
        await asyncio.to_thread(file.write_bytes, data)
        async with agent(tmp_path / "two", model.url) as client:
            assert await run(client, "import", str(file)) == 0
            assert await found(client, "fine") == [("session", 2)]
            async with open_stream(stub(client).ExportSession(request)) as call:
                assert b"".join([piece.data async for piece in call]) == data


async def test_the_command_line_finds_names_and_deletes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def said() -> str:
        return capsys.readouterr().out

    async with (
        fake_model(answers({"text": "Sunny."})) as model,
        agent(tmp_path, model.url) as client,
    ):
        await client.ask("what about the weather?")
        assert await run(client, "rename", "session", "Holiday plans") == 0
        assert "Holiday plans" in said()
        assert await run(client, "search", "weather", "--json") == 0
        (hit,) = json.loads(said())
        assert (hit["session_id"], hit["sequence"], hit["role"]) == ("session", 1, "user")
        assert await run(client, "search", "--session", "holiday plans", "--around", "1") == 0
        assert "Sunny." in said()
        assert await run(client, "branch", "Holiday plans", "--title", "Other", "--json") == 0
        branch = json.loads(said())
        assert (branch["parent_session_id"], branch["title"]) == ("session", "Other")
        assert await run(client, "export", "--all", "--to", str(tmp_path / "kept")) == 0
        files = await asyncio.to_thread(lambda: sorted((tmp_path / "kept").iterdir()))
        assert [file.name for file in files] == [f"{branch['session_id']}.json", "session.json"]
        said()
        assert await run(client, "undo", "Other", "--json") == 0
        assert json.loads(said())["user_text"] == "what about the weather?"
        assert await run(client, "prune", "--unused-for", "1d", "--json") == 0
        assert json.loads(said()) == []
        assert await run(client, "delete", "Holiday plans", "--yes") == 0
        assert await found(client, "weather") == []


async def test_what_a_batch_said_is_not_among_conversations(tmp_path: Path) -> None:
    async with (
        fake_model(answers({"text": "Well."})) as model,
        agent(tmp_path, model.url) as client,
    ):
        await client.ask("one pear", session_id="mine")
        kind, origin = turn_pb2.TURN_KIND_JOB, Origin(platform="batch")
        started = await client.start("two pears", session_id="bat_1.1", kind=kind, origin=origin)
        await client.watch(started.turn_id)
        assert await found(client, "pear OR pears") == [("mine", 1)]
        listed = await stub(client).ListSessions(session_pb2.ListSessionsRequest())
        assert [session.session_id for session in listed.sessions] == ["mine"]
        asked = session_pb2.ListMessagesRequest(session_id="bat_1.1")
        assert len((await stub(client).ListMessages(asked)).messages) == 2


async def test_the_model_looks_into_earlier_sessions(tmp_path: Path) -> None:
    look = {"name": "session_search", "arguments": {"query": "apple OR pear", "limit": 2}}
    around = {
        "name": "session_search",
        "arguments": {"session_id": "first", "around_message_id": 2, "window": 1},
    }
    beyond = {
        "name": "session_search",
        "arguments": {"session_id": "first", "around_message_id": 10**30},
    }
    hers = {"name": "session_search", "arguments": {"query": "secret"}}
    called = {"name": "session_search", "arguments": {"query": "pear", "role_filter": "assistant"}}
    script = {
        "rules": [
            {
                "user": "look",
                "steps": [{"tool_calls": [look, around, hers, beyond]}, {"text": "{tool_result}"}],
            },
            {
                "user": "^what was called",
                "steps": [{"tool_calls": [called]}, {"text": "{tool_result}"}],
            },
            {"steps": [{"text": "Noted."}]},
        ]
    }
    async with fake_model(script) as model, agent(tmp_path, model.url) as client:
        await client.ask("one apple a day", session_id="first")
        started = await client.start("my secret", session_id="hers", profile="hers")
        await client.watch(started.turn_id, profile="hers")
        await client.ask("look for the apple", session_id="second")
        results = [m["content"] for m in model.bodies[-1]["messages"] if m["role"] == "tool"]
        await client.ask("what was called", session_id="third")
        (calls,) = (m["content"] for m in model.bodies[-1]["messages"] if m["role"] == "tool")
    assert 'assistant: session_search {"query": "apple OR pear"' in calls
    assert "## first “one apple a day” (cli)\n[1]" in results[0]
    assert "second" not in results[0]
    assert "[2]" in results[1]
    assert "assistant: Noted." in results[1]
    assert results[2] == "Nothing was found."
    assert results[3].startswith("## first")
    assert "\n" not in results[3]
    assert "session_search" in model.bodies[0]["messages"][0]["content"]
