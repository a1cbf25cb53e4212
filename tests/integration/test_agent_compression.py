"""Conversations that become too long for their model, through the real loop."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from agent_service.prompt.compression.summary import INSTRUCTION, LABEL
from agent_service.records.model import encoded
from agent_service.records.sent_history import NO_ANSWER
from agent_service.storage import schema
from hermes.agent.v1.turn_event_pb2 import TurnEvent
from hermes.agent.v1.turn_pb2 import TURN_KIND_COMPRESS
from services.database import Database
from tests.fakes.model import FakeModel, fake_model
from tests.integration.agent_parts import AgentClient, agent, answer, kinds
from tests.unit.agent.test_compression import check_pairs

CONFIG = "models: {scripted: {window: 26000}}\nmodel: {max_tokens: 1000}\n"
NOTES = {"user": "The conversation:", "steps": [{"text": "Goal: tea. Open: sugar."}]}
LONG = "word " * 2400


def _script(*said: dict[str, Any]) -> dict[str, Any]:
    return {"rules": [NOTES, {"steps": list(said)}]}


def _is_about_notes(body: dict[str, Any]) -> bool:
    return body["messages"][0]["content"] == INSTRUCTION


def _conversations(model: FakeModel) -> list[list[bytes]]:
    """The messages of each request of the loop, as they were sent."""
    asked = [body["messages"] for body in model.bodies if not _is_about_notes(body)]
    return [[encoded(message) for message in messages] for messages in asked]


async def _configured(home: Path, more: str = "") -> None:
    await asyncio.to_thread((home / "config.yaml").write_text, CONFIG + more)


async def _talk(client: AgentClient, times: int) -> list[str]:
    """Say something long so often; the kinds of all events."""
    found: list[str] = []
    for n in range(times):
        found += kinds(await client.ask(f"part {n}: {LONG}"))
    return found


async def test_a_long_conversation_goes_on_after_a_restart_as_before(tmp_path: Path) -> None:
    await _configured(tmp_path)
    async with fake_model(_script({"text": "yes"})) as model:
        async with agent(tmp_path, model.url) as client:
            assert "compressed" in await _talk(client, 7)
            before = _conversations(model)[-1]
        async with agent(tmp_path, model.url) as client:
            events = await client.ask("and now?")
            assert "compressed" not in kinds(events)
            after = _conversations(model)[-1]
    assert after[: len(before)] == before
    assert len({conversation[0] for conversation in _conversations(model)}) == 1
    (notes,) = [m for m in map(json.loads, after) if m["content"].startswith(LABEL)]
    assert notes["role"] == "user"
    assert "Goal: tea. Open: sugar." in notes["content"]
    assert json.loads(after[1])["content"].startswith("part 0:")


async def test_all_of_it_stays_with_the_session(tmp_path: Path) -> None:
    await _configured(tmp_path)
    async with fake_model(_script({"text": "yes"})) as model:
        async with agent(tmp_path, model.url) as client:
            assert "compressed" in await _talk(client, 7)
        async with Database(f"sqlite:///{tmp_path}/state/agent.db", "agent") as database:
            said = sa.select(schema.message.c.content).order_by(schema.message.c.sequence)
            rows = await database.read(lambda conn: list(conn.execute(said).scalars()))
    assert [json.loads(row)["content"][:7] for row in rows][::2] == [f"part {n}:" for n in range(7)]


async def test_two_thousand_messages_are_compressed_with_their_pairs(tmp_path: Path) -> None:
    await _configured(tmp_path)
    async with fake_model(_script({"text": "yes"})) as model:
        async with agent(tmp_path, model.url) as client:
            await client.ask("first")
        await _fill(tmp_path, 2000)
        async with agent(tmp_path, model.url) as client:
            events = await client.ask("last")
    assert answer(events) == "yes"
    assert "compressed" in kinds(events)
    check_pairs(_conversations(model)[-1])


async def _fill(home: Path, count: int) -> None:
    """Put so many messages behind the first two of the only session."""
    async with Database(f"sqlite:///{home}/state/agent.db", "agent") as database:

        def fill(conn: sa.Connection) -> None:
            model_row = conn.execute(sa.select(schema.message)).mappings().all()[0]
            rows: list[dict[str, Any]] = []
            for n in range(count):
                message = _message(n)
                fields = {"sequence": 3 + n, "role": message["role"]}
                rows.append({**model_row, **fields, "content": encoded(message).decode()})
            conn.execute(sa.insert(schema.message), rows)
            conn.execute(sa.update(schema.session).values(message_count=2 + count))

        await database.write(fill)


def _message(n: int) -> dict[str, Any]:
    function = {"name": "read_file", "arguments": '{"path": "a"}'}
    call = {"id": f"c{n // 4}", "type": "function", "function": function}
    return [
        {"role": "user", "content": f"question {n} " + "y" * 100},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{n // 4}", "content": "x" * 1000},
        {"role": "assistant", "content": "answered"},
    ][n % 4]


async def _compress(client: AgentClient) -> list[TurnEvent]:
    started = await client.start("/compress", kind=TURN_KIND_COMPRESS)
    return await client.watch(started.turn_id)


async def test_it_is_done_when_it_is_asked_for_and_adds_nothing(tmp_path: Path) -> None:
    async with fake_model(_script({"text": "yes"})) as model:
        async with agent(tmp_path, model.url) as client:
            assert "compressed" not in await _talk(client, 7)
            events = await _compress(client)
            assert kinds(events) == ["turn_started", "compressed", "text_finished", "turn_finished"]
            assert answer(events).startswith("Compressed to about ")
            await client.ask("and now?")
            hot = _conversations(model)[-1]
        async with agent(tmp_path, model.url) as client:
            await client.ask("and after a restart?")
    said = [json.loads(message)["content"] for message in hot if message != NO_ANSWER]
    assert len(said) < 12
    assert [text.startswith(LABEL) for text in said].count(True) == 1
    assert not [text for text in said if "/compress" in text]
    cold = _conversations(model)[-1]
    assert cold[: len(hot)] == hot


async def test_what_a_provider_finds_too_long_is_compressed_and_asked_once_more(
    tmp_path: Path,
) -> None:
    error = {"error": {"message": "too long", "code": "context_length_exceeded"}}
    refusal = {"status": 400, "error": error}
    script = {
        "rules": [
            NOTES,
            {"user": "last", "steps": [[refusal, {"text": "now it fits"}]]},
            {"user": "never", "steps": [refusal]},
            {"steps": [{"text": "yes"}]},
        ]
    }
    async with fake_model(script) as model, agent(tmp_path, model.url) as client:
        assert "compressed" not in await _talk(client, 8)
        events = await client.ask("last")
        assert answer(events) == "now it fits"
        assert kinds(events).count("compressed") == 1
        events = await client.ask("never")
        assert kinds(events).count("compressed") == 1
        failed = events[-1].turn_finished.failed.failure
        assert "MODEL_CONTEXT_OVERFLOW" in str(failed)


async def test_at_openrouter_a_small_model_makes_the_notes(tmp_path: Path) -> None:
    await _configured(tmp_path)
    async with fake_model(_script({"text": "yes"})) as model:
        elsewhere = {"OPENROUTER_BASE_URL": model.url, "OPENROUTER_API_KEY": "or-key"}
        async with agent(tmp_path, "", HERMES_API_KEY="", **elsewhere) as client:
            assert "compressed" in await _talk(client, 7)
    asked = {
        (_is_about_notes(body), body["model"], body.get("temperature")) for body in model.bodies
    }
    assert asked == {(True, "google/gemini-3.7-flash", 0.3), (False, "scripted", None)}


@pytest.mark.parametrize("restarts", [False, True])
async def test_what_a_provider_counted_is_known_in_the_next_turn(
    tmp_path: Path, restarts: bool
) -> None:
    def said(tokens: int) -> dict[str, Any]:
        return {"text": "yes", "usage": {"prompt_tokens": tokens, "completion_tokens": 1}}

    await _configured(tmp_path)
    dense = {"user": "part 7:", "steps": [said(25_000)]}
    script = {"rules": [NOTES, dense, {"steps": [said(100)]}]}
    async with fake_model(script) as model:
        async with agent(tmp_path, model.url) as client:
            for n in range(8):
                assert "compressed" not in kinds(await client.ask(f"part {n}: {LONG[:3000]}"))
            if not restarts:
                assert "compressed" in kinds(await client.ask("and now?"))
        async with agent(tmp_path, model.url) as client:
            if restarts:
                assert "compressed" in kinds(await client.ask("and now?"))
