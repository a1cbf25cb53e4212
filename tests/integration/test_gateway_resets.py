"""Chats go on in a new session when their time has come: once, and never in the middle of work."""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

from tests.fakes.model import fake_model
from tests.fakes.telegram import FakeTelegram, fake_telegram
from tests.integration.gateway_parts import Hermes
from tests.integration.test_gateway_telegram import again

IDLE = "session_reset: {mode: idle, idle_minutes: 1}\n"
ADMIN = "platforms: {telegram: {extra: {admins: ['7']}}}\n"
PROMPT = "look back at the conversation above"
SCRIPT: dict[str, Any] = {
    "rules": [
        {"user": PROMPT, "steps": [{"text": "There is nothing to keep."}]},
        {
            "user": "ask me",
            "steps": [
                {"tool_calls": [{"name": "clarify", "arguments": {"question": "Red or blue?"}}]},
                {"text": "fine"},
            ],
        },
        {"user": "slowly", "steps": [{"text": "slow", "latency_s": 3}]},
        {"steps": [{"text": "well"}]},
    ]
}
CHAT = "SELECT session_id FROM chat_session"
ENDED = "SELECT * FROM chat_session WHERE ended_session_id IS NOT NULL"
REVIEWS = "SELECT parent_session_id FROM review"


@asynccontextmanager
async def _bot(folder: Path, yaml: str = IDLE) -> AsyncGenerator[tuple[FakeTelegram, Hermes]]:
    async with (
        fake_telegram() as telegram,
        fake_model(SCRIPT) as model,
        again(folder, telegram, model, yaml) as running,
    ):
        yield telegram, running


def age(running: Hermes, seconds: int) -> None:
    """Let the chats have been quiet for so long."""
    path = running.settings.home.database("gateway")
    with closing(sqlite3.connect(path, timeout=10)) as database, database:
        database.execute(
            "UPDATE chat_session SET last_used_at = last_used_at - ?", (seconds * 1_000_000,)
        )


def _watch(running: Hermes, session_id: str) -> None:
    """A command of a session runs in the background, and another replica watches it."""
    path = running.settings.home.database("agent")
    values = {
        "id": "trn_x:2", "session_id": session_id, "watched": "{}", "progress": "{}", "notice": "",
        "owner": "other/boot", "epoch": 1, "version": 1, "lease_until": 2**52, "created_at": 0,
    }  # fmt: skip
    names, marks = ", ".join(values), ", ".join("?" * len(values))
    with closing(sqlite3.connect(path, timeout=10)) as database, database:
        query = f"INSERT INTO watched_command ({names}) VALUES ({marks})"
        database.execute(query, list(values.values()))


async def _ask(telegram: FakeTelegram, text: str, answer: str) -> None:
    count = telegram.texts(1).count(answer)
    await telegram.say(1, text)
    await telegram.until(lambda: telegram.texts(1).count(answer) == count + 1)


async def test_after_a_pause_the_next_message_begins_a_new_session(tmp_path: Path) -> None:
    async with _bot(tmp_path, IDLE + ADMIN) as (telegram, running):
        await _ask(telegram, "hi", "well")
        [(old,)] = await running.rows("gateway", CHAT)
        await running.until_rows("gateway", "SELECT state FROM inbox", [("CLOSED",)])
        await asyncio.to_thread(age, running, 61)
        await _ask(telegram, "hi again", "well")
        assert await running.rows("gateway", CHAT) != [(old,)]
        told = f"A new session has begun after a pause; /resume {old} returns to the previous one."
        assert telegram.texts(1) == ["well", told, "well"]
        await running.until_rows("agent", REVIEWS, [(old,)])
        await telegram.say(1, f"/resume {old}")
        await running.until_rows("gateway", CHAT, [(old,)])
        await _ask(telegram, "as I said", "well")
        turns = f"SELECT count(*) FROM turn WHERE session_id = '{old}'"
        assert await running.rows("agent", turns) == [(2,)]


async def test_no_session_ends_while_a_person_is_waited_for_or_something_runs(
    tmp_path: Path,
) -> None:
    async with _bot(tmp_path) as (telegram, running):
        await telegram.say(1, "ask me")
        await telegram.until(lambda: any("Red or blue?" in text for text in telegram.texts(1)))
        [(old,)] = await running.rows("gateway", CHAT)
        await asyncio.to_thread(age, running, 61)
        await telegram.say(1, "red")
        await telegram.until(lambda: "fine" in telegram.texts(1))
        assert await running.rows("gateway", CHAT) == [(old,)]
        await running.until_rows(
            "gateway", "SELECT count(*) FROM inbox WHERE state != 'CLOSED'", [(0,)]
        )
        await asyncio.to_thread(_watch, running, old)
        await asyncio.to_thread(age, running, 61)
        await _ask(telegram, "is it done?", "well")
        assert await running.rows("gateway", CHAT) == [(old,)]
        assert await running.rows("gateway", ENDED) == []


async def test_new_asks_for_a_last_look_where_that_is_wanted(tmp_path: Path) -> None:
    async with _bot(tmp_path, "session_reset: {review_on_new: true}\n") as (telegram, running):
        await _ask(telegram, "hi", "well")
        [(old,)] = await running.rows("gateway", CHAT)
        await telegram.say(1, "/new")
        await running.until_rows("agent", REVIEWS, [(old,)])
        assert await running.rows("gateway", ENDED) == []
