"""What becomes of messages while the agent's database is damaged, until its file is put right."""

import asyncio
from pathlib import Path

from tests.damage import damaged_table
from tests.fakes.model import answers, fake_model
from tests.integration.gateway_parts import Client, client, hermes

ADVICE = "damaged or not a database; put a backup in its place"
LEASE_S = 3


async def test_a_message_waits_with_a_word_and_is_answered_afterwards(tmp_path: Path) -> None:
    async with (
        fake_model(answers({"text": "re: {user}"})) as model,
        hermes(tmp_path, model.url) as running,
        client(running) as ada,
    ):
        assert await ada.ask("hello") == "re: hello"
        async with damaged_table(running.settings.home.database("agent"), "turn"):
            message_id = await ada.dialogue.say("and now?")
            await ada.until(lambda ada: any(ADVICE in text for text in ada.news()))
            assert ada.outcome(message_id) is None
        await ada.until(lambda ada: ada.outcome(message_id) is not None)
        assert ada.events(ada.turn(message_id))[-1].turn_finished.completed.answer == "re: and now?"
        assert len(ada.news()) == 1, "it was told again and again"


async def test_a_turn_waits_with_a_word_and_asks_the_model_seldom(tmp_path: Path) -> None:
    rules = answers({"text": "An answer.", "latency_s": 0.5})
    async with (
        fake_model(rules) as model,
        hermes(tmp_path, model.url, f"agent: {{lease_s: {LEASE_S}}}") as running,
        client(running) as ada,
    ):
        message_id = await ada.dialogue.say("hello")
        await model.until(lambda: len(model.bodies) == 1)
        async with damaged_table(running.settings.home.database("agent"), "message"):
            await ada.until(lambda ada: ADVICE in notices(ada, message_id))
            await asyncio.sleep(LEASE_S / 2)
            assert len(model.bodies) == 1
        await ada.until(lambda ada: ada.outcome(message_id) is not None)
        outcome = ada.outcome(message_id)
        assert outcome is not None
        assert outcome.completed.answer == "An answer."


def notices(ada: Client, message_id: str) -> str:
    """What was told of a message's turn beside its answer."""
    return "\n".join(event.notice.text for event in ada.events(ada.turn(message_id)))
