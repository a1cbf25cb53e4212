"""Hermes is killed while Telegram has done what it was asked for and has not answered yet."""

import asyncio
from collections import Counter

import pytest

from tests.chaos.traffic import MARK, PLACEHOLDER
from tests.e2e.deployment import Deployment
from tests.fakes.telegram import FakeTelegram

COMMANDING, TALKING = 1, 2
KILLS = (
    ("sendMessage", 2),  # the reply of one chat and the placeholder of the other
    ("sendMessage", 4),  # both again
    ("editMessageText", 2),  # of the repeat, and of a draft or the answer
)
"""When to kill: after so many calls of a method, of which the last ones are not answered."""


@pytest.mark.timeout(180)
async def test_nothing_is_there_twice_but_one_marked_repeat(
    one: Deployment, telegram: FakeTelegram
) -> None:
    telegram.faults.planned["sendMessage"] = ["silent"] * 4
    telegram.faults.planned["editMessageText"] = ["silent"] * 2
    await telegram.say(COMMANDING, "/whoami")
    await telegram.say(TALKING, "job")
    for method, count in KILLS:
        await telegram.until(lambda method=method, count=count: telegram.calls[method] >= count, 60)
        await asyncio.to_thread(one.kill)
        await asyncio.to_thread(one.start)
    for chat_id in (COMMANDING, TALKING):
        await telegram.say(chat_id, "job again")
        await telegram.until(lambda chat_id=chat_id: "re: job again" in telegram.texts(chat_id), 60)
    reply = telegram.texts(COMMANDING)[0]
    said = {
        chat_id: Counter(text for text in telegram.texts(chat_id) if text != PLACEHOLDER)
        for chat_id in (COMMANDING, TALKING)
    }
    assert said[COMMANDING] == Counter([reply, MARK + reply, "re: job again"])
    assert said[TALKING] == Counter(["re: job", "re: job again"])
