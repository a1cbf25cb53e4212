"""A gateway that is killed between the last look at a session and its end: each happens once."""

import asyncio
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.chaos.test_telegram import victim
from tests.fakes.model import fake_model
from tests.fakes.telegram import fake_telegram

TOLD = "A new session has begun after a pause"
REPEAT = "This may be a repeat:"
PROMPT = "look back at the conversation above"
SCRIPT = {
    "rules": [
        {"user": PROMPT, "steps": [{"text": "There is nothing to keep."}]},
        {"steps": [{"text": "well"}]},
    ]
}


def _rows(home: Path, service: str, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(home / "state" / f"{service}.db", timeout=10)) as database:
        return database.execute(query).fetchall()


async def _until(home: Path, service: str, query: str, expected: object) -> None:
    async with asyncio.timeout(30):
        while await asyncio.to_thread(_rows, home, service, query) != expected:  # noqa: ASYNC110 - of a process
            await asyncio.sleep(0.02)


@contextmanager
def _nothing_is_written(home: Path) -> Generator[None]:
    """Keep a gateway from its next write; it may read, and call the agent."""
    path = home / "state/gateway.db"
    # It is begun and ended in threads.
    with closing(sqlite3.connect(path, timeout=10, check_same_thread=False)) as database:
        database.isolation_level = None
        database.execute("BEGIN IMMEDIATE")
        yield
        database.execute("ROLLBACK")


def _age(home: Path) -> None:
    """Let the chats have been quiet for longer than a session lasts."""
    with closing(sqlite3.connect(home / "state/gateway.db", timeout=10)) as database, database:
        database.execute("UPDATE chat_session SET last_used_at = last_used_at - 61000000")


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_a_kill_between_the_last_look_and_the_reset_makes_neither_twice(
    tmp_path: Path,
) -> None:
    settings = "session_reset: {mode: idle, idle_minutes: 1}\n"
    await asyncio.to_thread((tmp_path / "config.yaml").write_text, settings)
    chat, resets = "SELECT session_id FROM chat_session", "SELECT old_session_id FROM session_reset"
    reviews = "SELECT parent_session_id FROM review"
    async with fake_telegram() as telegram, fake_model(SCRIPT) as model:
        async with victim(tmp_path, telegram, model.url) as hermes:
            await telegram.say(1, "hi")
            await telegram.until(lambda: telegram.texts(1) == ["well"])
            await _until(tmp_path, "gateway", "SELECT state FROM inbox", [("CLOSED",)])
            [(old,)] = await asyncio.to_thread(_rows, tmp_path, "gateway", chat)
            await asyncio.to_thread(_age, tmp_path)
            held = _nothing_is_written(tmp_path)
            await asyncio.to_thread(held.__enter__)
            try:
                await _until(tmp_path, "agent", reviews, [(old,)])
                await hermes.end()
            finally:
                await asyncio.to_thread(held.__exit__, None, None, None)
            assert await asyncio.to_thread(_rows, tmp_path, "gateway", resets) == []
            assert await asyncio.to_thread(_rows, tmp_path, "gateway", chat) == [(old,)]
            await hermes.start()
            await _until(tmp_path, "gateway", resets, [(old,)])
            ended = "SELECT state FROM turn WHERE kind = 'review'"
            await _until(tmp_path, "agent", ended, [("COMPLETED",)])
            # It is told with the next message, and not again by a process that is killed then.
            await telegram.say(1, "hi again")
            await telegram.until(lambda: any("new session" in each for each in telegram.texts(1)))
            await hermes.end()
            await hermes.start()
            await telegram.until(lambda: telegram.texts(1).count("well") == 2)
            await telegram.say(1, "and so on")
            await telegram.until(lambda: telegram.texts(1).count("well") == 3)
        told = [text for text in telegram.texts(1) if "new session" in text]
        # What a killed process may have sent already is marked where it is sent again.
        again = [text for text in told if text.startswith(REPEAT)]
        assert len([text for text in told if text.startswith(TOLD)]) == 1
        assert len(told) == 1 + len(again) <= 2
    assert await asyncio.to_thread(_rows, tmp_path, "gateway", resets) == [(old,)]
    assert await asyncio.to_thread(_rows, tmp_path, "agent", reviews) == [(old,)]
    assert await asyncio.to_thread(_rows, tmp_path, "agent", ended) == [("COMPLETED",)]
    said = "SELECT count(*) FROM message JOIN turn ON turn.id = turn_id WHERE kind = 'review'"
    # Its question and its answer.
    assert await asyncio.to_thread(_rows, tmp_path, "agent", said) == [(2,)]
    sessions = "SELECT count(*) FROM session WHERE platform = 'telegram'"
    assert await asyncio.to_thread(_rows, tmp_path, "agent", sessions) == [(2,)]
