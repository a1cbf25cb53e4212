"""A model that remembers: what its sessions' prompts have, and what it can change."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hermes.agent.v1 import memory_pb2
from hermes.agent.v1.memory_pb2_grpc import MemoryServiceStub
from hermes.agent.v1.turn_event_pb2 import TurnEvent
from services.errors import Reason
from tests.fakes.model import FakeModel, fake_model
from tests.integration.agent_parts import agent, answer
from tests.support.executors import refused


def _remember(**arguments: Any) -> dict[str, Any]:
    call = {"name": "memory", "arguments": arguments}
    return {"rules": [{"steps": [{"tool_calls": [call]}, {"text": "{tool_result}"}]}]}


def _prompts(model: FakeModel) -> list[str]:
    return [body["messages"][0]["content"] for body in model.bodies]


def _lasting(events: Sequence[TurnEvent]) -> list[str]:
    return [event.notice.text for event in events if event.notice.lasts]


async def _write(home: Path, name: str, text: str) -> None:
    path = home / name
    await asyncio.to_thread(path.parent.mkdir, parents=True, exist_ok=True)
    await asyncio.to_thread(path.write_text, text)


async def test_what_is_remembered_is_in_the_next_session_and_not_in_this_one(
    tmp_path: Path,
) -> None:
    script = _remember(target="user", action="add", content="Calls himself Ishmael.")
    async with fake_model(script) as model, agent(tmp_path, model.url) as client:
        said = answer(await client.ask("Call me Ishmael."))
        assert said == "Remembered (user: 1% — 22/1375 chars)."
        await client.ask("And now?")
        first = _prompts(model)
        assert len(set(first)) == 1
        assert "Ishmael" not in first[0]
        await client.ask("Who am I?", session_id="another")
        assert "USER PROFILE (who the user is) [1% — 22/1375 chars]" in _prompts(model)[-1]
        assert "Calls himself Ishmael." in _prompts(model)[-1]
    async with fake_model(script) as model, agent(tmp_path, model.url) as client:
        await client.ask("After a restart?")
        assert _prompts(model)[0] == first[0]


async def test_a_home_s_own_texts_come_in_their_order(tmp_path: Path) -> None:
    await _write(tmp_path, "SOUL.md", "You are Ada, and brief.\n")
    await _write(tmp_path, "memories/MEMORY.md", "The build needs make 4.\n§\nTests are slow.")
    await _write(tmp_path, "memories/USER.md", "Lives in Rome.\n")
    async with fake_model({"rules": [{"steps": [{"text": "hi"}]}]}) as model:
        async with agent(tmp_path, model.url) as client:
            await client.ask("hi")
        (prompt,) = _prompts(model)
    assert prompt.startswith("You are Ada, and brief.\n\n# Tools")
    parts = ["# Memory\n", "MEMORY (your personal notes) [1% — 41/2200 chars]", "USER PROFILE"]
    places = [prompt.index(part) for part in [*parts, "Current time: "]]
    assert places == sorted(places)
    assert "The build needs make 4.\n§\nTests are slow.\n" in prompt
    assert "Hermes, a personal assistant" not in prompt


async def test_a_session_keeps_the_limits_that_it_began_with(tmp_path: Path) -> None:
    script = _remember(target="user", action="add", content="Calls himself Ishmael.")
    limited = "memory: {limit: scaled}\nmodels: {scripted: {window: %d}}\n"
    async with fake_model(script) as model:
        for window, session, limit in (
            (256_000, "first", 2750),
            (512_000, "first", 2750),
            (512_000, "second", 5500),
        ):
            await _write(tmp_path, "config.yaml", limited % window)
            async with agent(tmp_path, model.url) as client:
                said = answer(await client.ask("hi", session_id=session))
            assert f"/{limit} chars" in said


async def test_what_is_longer_than_it_may_be_is_told_whole_and_a_person_hears_of_it(
    tmp_path: Path,
) -> None:
    entries = [f"{number} is a number." for number in range(100)]
    await _write(tmp_path, "memories/USER.md", "\n§\n".join(entries))
    await _write(tmp_path, "memories/MEMORY.md", "x" * 2200 + "\n")
    script = {"rules": [{"steps": [{"text": "hi"}]}]}
    async with fake_model(script) as model, agent(tmp_path, model.url) as client:
        heard = _lasting(await client.ask("hi"))
        again = _lasting(await client.ask("hi again"))
    assert all(entry in _prompts(model)[0] for entry in entries)
    assert "chars]" in _prompts(model)[0]
    (notice,) = heard
    assert notice.startswith("memories/USER.md is longer than its limit (129% — 1787/1375 chars)")
    assert "memory.user_char_limit" in notice
    assert again == []


async def test_memory_can_be_turned_off(tmp_path: Path) -> None:
    await _write(tmp_path, "memories/USER.md", "Lives in Rome.")
    await _write(tmp_path, "config.yaml", "memory: {memory_enabled: false}\n")
    async with fake_model({"rules": [{"steps": [{"text": "hi"}]}]}) as model:
        async with agent(tmp_path, model.url) as client:
            await client.ask("hi")
        (body,) = model.bodies
    assert "Rome" not in body["messages"][0]["content"]
    assert "# Memory" not in body["messages"][0]["content"]
    assert "memory" not in [tool["function"]["name"] for tool in body["tools"]]


async def test_people_change_memories_by_the_service(tmp_path: Path) -> None:
    add = memory_pb2.MemoryOperation(action=memory_pb2.MEMORY_ACTION_ADD, content="Likes tea.")
    request = memory_pb2.ApplyMemoryRequest(
        request_id="r1", target=memory_pb2.MEMORY_TARGET_USER, operations=[add]
    )
    async with (
        fake_model({"rules": [{"steps": [{"text": "hi"}]}]}) as model,
        agent(tmp_path, model.url) as client,
    ):
        memories = MemoryServiceStub(client.channels.to("agent"))
        for _ in range(2):
            made = await memories.ApplyMemory(request)
            assert list(made.memory.entries) == ["Likes tea."]
        listed = await memories.ListMemoryChanges(memory_pb2.ListMemoryChangesRequest())
        (change,) = listed.changes
        assert (change.change_id, change.before, change.after) == ("r1", "", "Likes tea.")
        undo = memory_pb2.UndoMemoryChangeRequest(change_id="r1", request_id="u1")
        assert not (await memories.UndoMemoryChange(undo)).memory.entries
        unknown = memory_pb2.UndoMemoryChangeRequest(change_id="r1", profile="work")
        assert await refused(memories.UndoMemoryChange(unknown)) is Reason.NOT_FOUND
        late = memory_pb2.ApplyMemoryRequest()
        late.CopyFrom(request)
        late.request_id, late.expected_version = "r2", "another"
        assert await refused(memories.ApplyMemory(late)) is Reason.STALE_EPOCH
        for wrong in (
            memory_pb2.ApplyMemoryRequest(request_id="r3", operations=[add]),
            memory_pb2.ApplyMemoryRequest(request_id="r3", target=request.target),
            memory_pb2.ApplyMemoryRequest(target=request.target, operations=[add]),
        ):
            assert await refused(memories.ApplyMemory(wrong)) is Reason.INVALID_ARGUMENT
