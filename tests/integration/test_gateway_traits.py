"""Answers and questions on platforms that lack something: edits, buttons."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gateway_service.errors import OutcomeUnknown, Unreachable
from gateway_service.outbox.worker import PLACEHOLDER
from gateway_service.platforms.base import Traits
from gateway_service.platforms.rate_limits import Rate
from gateway_service.storage import migrations
from gateway_service.storage.outbox import REPEAT
from services.database import Database
from services.database.migrations import prepare
from tests.fakes.model import answers, fake_model
from tests.fakes.platform import PLAIN, MemoryPlatform
from tests.fakes.turns import FakeTurns
from tests.integration.gateway_parts import hermes
from tests.integration.gateway_replicas import Agent, replica
from tests.support.executors import until

RUN = {"tool_calls": [{"name": "terminal", "arguments": {"command": "rm -r src"}}]}
ASK = {
    "tool_calls": [
        {"name": "clarify", "arguments": {"question": "Which otter?", "choices": ["sea", "river"]}}
    ]
}
ASK_FIRST = "approvals: {mode: manual}"


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    """The gateway's tables."""
    async with Database(f"sqlite:///{tmp_path}/texts.db", "gateway") as opened:
        await prepare(opened, migrations)
        yield opened


@asynccontextmanager
async def texting(
    folder: Path, database: Database, script: Mapping[str, Any], traits: Traits = PLAIN
) -> AsyncGenerator[MemoryPlatform]:
    """A platform whose people talk to the real agent, which asks before it runs anything."""
    platform = MemoryPlatform(traits=traits)
    async with (
        fake_model(script) as model,
        hermes(folder, model.url, ASK_FIRST, services=("agent",)) as running,
        replica(database, platform, Agent(FakeTurns(), running.operator.to("agent"))),
    ):
        yield platform


async def test_without_edits_an_answer_is_one_message(database: Database, agent: Agent) -> None:
    platform = MemoryPlatform(traits=replace(PLAIN, typing_interval_s=0.02))
    async with replica(database, platform, agent):
        platform.say("5", "say one two")
        [turn] = await agent.turns.started(1)
        await until(lambda: len(platform.typed) > 3)
        assert platform.texts("5") == []
        agent.turns.release(turn)
        await until(lambda: platform.texts("5") == ["one two"])
        platform.say("5", f"answer {'word ' * 100}end")
        await until(lambda: platform.texts("5")[-1].endswith("end"))
        assert len(platform.texts("5")) == 3


async def test_the_parts_of_an_answer_come_with_pauses(database: Database, agent: Agent) -> None:
    platform = MemoryPlatform(traits=PLAIN)
    async with replica(database, platform, agent) as running:
        running.pauses_s = (3600.0, 3600.0)
        platform.say("5", f"answer {'word ' * 100}end")
        await until(lambda: platform.texts("5"))
        await asyncio.sleep(0.2)
        assert len(platform.texts("5")) == 1
    async with replica(database, platform, agent) as running:
        running.pauses_s = (0.05, 0.05)
        platform.say("6", f"answer {'word ' * 100}end")
        await until(lambda: len(platform.texts("6")) == 2)
        assert platform.texts("6")[1].endswith("end")


async def test_without_edits_it_is_said_that_a_message_waits(
    database: Database, agent: Agent
) -> None:
    platform = MemoryPlatform(traits=PLAIN)
    agent.turns.queues = True
    async with replica(database, platform, agent):
        platform.say("5", "/queue wait one")
        [turn] = await agent.turns.started(1)
        await until(lambda: [text[:7] for text in platform.texts("5")] == ["Queued."])
        agent.turns.release(turn)
        await until(lambda: len(platform.texts("5")) == 2)
        assert platform.texts("5")[1] == "one"


@pytest.mark.parametrize(("safely_s", "shown"), [(0.0, ["one", f"{REPEAT}one"]), (60.0, ["one"])])
async def test_without_edits_an_answer_in_doubt_is_marked_unless_a_key_tells(
    database: Database, agent: Agent, safely_s: float, shown: list[str]
) -> None:
    platform = MemoryPlatform(traits=replace(PLAIN, repeats_safely_s=safely_s))
    async with replica(database, platform, agent):
        platform.say("5", "wait one")
        [turn] = await agent.turns.started(1)
        await until(lambda: platform.typed)
        platform.failures.extend([Unreachable("down"), OutcomeUnknown("cut")])
        agent.turns.release(turn)
        await until(lambda: platform.texts("5") == shown)
        await asyncio.sleep(0.1)
        assert platform.texts("5") == shown


@pytest.mark.parametrize(
    ("said", "decided"), [("3", "deny"), ("Deny.", "deny"), ("this session", "session")]
)
async def test_without_buttons_a_number_or_a_word_of_the_list_decides(
    tmp_path: Path, database: Database, said: str, decided: str
) -> None:
    script = {"rules": [{"steps": [RUN, {"text": "Over: {tool_result}"}]}]}
    async with texting(tmp_path, database, script) as platform:
        platform.say("5", "clean up")
        await until(lambda: platform.texts("5"))
        [question] = platform.texts("5")
        assert "rm -r src" in question
        lines = "1. Once\n2. This session\n3. Deny\n4. Always\n"
        assert lines in question
        platform.say("5", said)
        await until(lambda: len(platform.texts("5")) == 2)
        assert platform.texts("5")[0] == question
        assert platform.texts("5")[1].startswith("Over:")
        assert ("denied this call" in platform.texts("5")[1].lower()) == (decided == "deny")


async def test_without_buttons_a_question_is_answered_by_its_number(
    tmp_path: Path, database: Database
) -> None:
    script = {"rules": [{"steps": [ASK, {"text": "So: {tool_result}"}]}]}
    async with texting(tmp_path, database, script) as platform:
        platform.say("5", "hello")
        await until(lambda: platform.texts("5"))
        assert platform.texts("5")[0].startswith("Which otter?\n1. sea\n2. river\n")
        platform.say("5", "2")
        await until(lambda: platform.texts("5")[1:] == ["So: The user answered: river"])


async def test_without_edits_it_is_said_when_a_question_is_over(
    tmp_path: Path, database: Database
) -> None:
    script = {"rules": [{"steps": [RUN, {"text": "never"}]}]}
    async with texting(tmp_path, database, script) as platform:
        platform.say("5", "clean up")
        await until(lambda: platform.texts("5"))
        platform.say("5", "/stop")
        await until(lambda: "Stopped." in platform.texts("5"))
        expired = [text for text in platform.texts("5") if text.startswith("Expired")]
        assert len(expired) == 1


async def test_the_first_text_is_shown_at_once(database: Database, agent: Agent) -> None:
    traits = Traits(message_units=200, rate=Rate(1000.0, 100), edit_interval_s=3600)
    platform = MemoryPlatform(traits=traits)
    async with replica(database, platform, agent):
        platform.say("5", "say one")
        await until(lambda: platform.texts("5") not in ([], [PLACEHOLDER.text]))
        assert platform.texts("5") == ["one"]


async def test_more_choices_than_buttons_are_a_list(tmp_path: Path, database: Database) -> None:
    script = answers(ASK)
    traits = replace(PLAIN, buttons=1, can_edit=True)
    async with texting(tmp_path, database, script, traits) as platform:
        platform.say("5", "hello")
        await until(lambda: any("2. river" in text for text in platform.texts("5")))
        assert not any(content.buttons for content in platform.chats["5"].values())
