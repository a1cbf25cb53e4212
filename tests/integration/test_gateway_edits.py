"""What people do to messages: they edit their own, and put emojis on ours."""

from pathlib import Path

import pytest
import sqlalchemy as sa

from gateway_service.storage import schema
from services.database import Database
from tests.fakes.platform import MemoryPlatform
from tests.integration.gateway_replicas import Agent, replica
from tests.integration.test_gateway_traits import RUN, database, texting
from tests.support.executors import until

__all__ = ["database"]


def prompts(agent: Agent) -> list[str]:
    """What the agent was asked."""
    return [each.parts[0].text for each in agent.turns.requests.values()]


async def all_closed(database: Database) -> bool:
    """Whether nothing of the inbox is open."""
    states = sa.select(schema.inbox.c.state).distinct()
    return await database.read(lambda conn: conn.execute(states).scalars().all()) == ["CLOSED"]


async def test_a_message_that_waits_is_taken_as_it_was_edited(
    database: Database, agent: Agent
) -> None:
    platform = MemoryPlatform()
    agent.turns.unreachable = True
    async with replica(database, platform, agent):
        platform.say("5", "answer one")
        await until(lambda: agent.turns.refused)
        second = platform.say("5", "answer tow")
        platform.say("5", "answer two", edits=second)
        platform.say("5", "answer three")
        await until(lambda: _has_rows(database, 4))
        agent.turns.unreachable = False
        await until(lambda: platform.texts("5") == ["one", "two", "three"])
        await until(lambda: all_closed(database))
    assert prompts(agent) == ["answer one", "answer two", "answer three"]


async def _has_rows(database: Database, expected: int) -> bool:
    count = sa.select(sa.func.count()).select_from(schema.inbox)
    return await database.read(lambda conn: conn.execute(count).scalar_one()) == expected


async def test_the_last_message_is_taken_again_when_it_is_edited(
    database: Database, agent: Agent
) -> None:
    platform = MemoryPlatform()
    async with replica(database, platform, agent):
        first = platform.say("5", "answer one")
        await until(lambda: platform.texts("5") == ["one"])
        second = platform.say("5", "answer two")
        await until(lambda: platform.texts("5")[1:] == ["two"])
        platform.say("5", "answer an older one", edits=first)
        platform.say("5", "answer two", edits=second)  # a link of it got a preview
        platform.say("5", "answer 2", edits=second)
        await until(lambda: len(platform.texts("5")) == 3)
        platform.say("5", "answer 2", edits=second)
        platform.say("5", "/whoami", edits=second)
        await until(lambda: "`7`" in platform.texts("5")[-1])
        await until(lambda: all_closed(database))
    assert prompts(agent) == ["answer one", "answer two", "Edited: answer 2"]


async def test_a_command_with_a_typing_error_is_run_when_it_is_edited(
    database: Database, agent: Agent
) -> None:
    platform = MemoryPlatform()
    async with replica(database, platform, agent):
        wrong = platform.say("5", "/hlep")
        await until(lambda: len(platform.texts("5")) == 1)
        platform.say("5", "/whoami", edits=wrong)
        await until(lambda: len(platform.texts("5")) == 2)
        assert "`7`" in platform.texts("5")[1]


@pytest.mark.parametrize(("emoji", "said"), [("👍🏽", "Over: "), ("👎", "denied this call")])
async def test_a_thumb_decides_an_open_approval(
    tmp_path: Path, database: Database, emoji: str, said: str
) -> None:
    script = {"rules": [{"steps": [RUN, {"text": "Over: {tool_result}"}]}]}
    async with texting(tmp_path, database, script) as platform:
        platform.say("5", "clean up")
        await until(lambda: platform.texts("5"))
        [question] = platform.chats["5"]
        platform.react("5", question, "🎉")
        platform.react("5", question, emoji, user_id="666")
        platform.react("5", question, emoji)
        await until(lambda: len(platform.texts("5")) == 2)
        assert said in platform.texts("5")[1]
        assert ("denied" in platform.texts("5")[1]) == (emoji == "👎")
        # What is decided stays so, and a thumb on an answer means nothing.
        platform.react("5", question, "👎")
        platform.react("5", list(platform.chats["5"])[1], "👍")
        await until(lambda: _only_strangers_are_open(database))
        assert len(platform.texts("5")) == 2


async def _only_strangers_are_open(database: Database) -> bool:
    states = sa.select(schema.inbox.c.state)
    found = await database.read(lambda conn: conn.execute(states).scalars().all())
    return sorted(found) == ["CLOSED"] * 5 + ["IGNORED"]
