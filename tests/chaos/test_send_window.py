"""Hermes is killed while Telegram has done what it was asked for and has not answered yet."""

from collections import Counter
from pathlib import Path

import pytest

from gateway_service.storage.outbox import REPEAT
from tests.chaos.test_telegram import victim
from tests.fakes.model import answers, fake_model
from tests.fakes.telegram import fake_telegram

COMMANDING, TALKING = 1, 2
PLACEHOLDER, MARK = "…", REPEAT.replace("_", "")
ECHO = answers({"text": "re: {user}", "chunk_chars": 4, "chunk_delay_s": 0.02})
KILLS = (
    ("sendMessage", 2),  # the reply of one chat and the placeholder of the other
    ("sendMessage", 4),  # both again
    ("editMessageText", 2),  # of the repeat, and of a draft or the answer
)
"""When to kill: after so many calls of a method, of which the last ones are not answered."""


@pytest.mark.timeout(180)
async def test_nothing_is_there_twice_but_one_marked_repeat(tmp_path: Path) -> None:
    async with fake_telegram() as telegram, fake_model(ECHO) as model:
        telegram.faults.planned["sendMessage"] = ["silent"] * 4
        telegram.faults.planned["editMessageText"] = ["silent"] * 2
        async with victim(tmp_path, telegram, model.url) as hermes:
            await telegram.say(COMMANDING, "/whoami")
            await telegram.say(TALKING, "hello")
            for method, count in KILLS:
                await telegram.until(
                    lambda method=method, count=count: telegram.calls[method] >= count, 60
                )
                await hermes.end()
                await hermes.start()
            for chat_id in (COMMANDING, TALKING):
                await telegram.say(chat_id, "again")
                await telegram.until(
                    lambda chat_id=chat_id: "re: again" in telegram.texts(chat_id), 60
                )
        reply = telegram.texts(COMMANDING)[0]
        said = {
            chat_id: Counter(text for text in telegram.texts(chat_id) if text != PLACEHOLDER)
            for chat_id in (COMMANDING, TALKING)
        }
    assert said[COMMANDING] == Counter([reply, MARK + reply, "re: again"])
    assert said[TALKING] == Counter(["re: hello", "re: again"])
