"""Telegram that drops, delays, limits and repeats, and a Hermes that is killed: nothing is lost."""

import asyncio
import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path

import pytest

from tests.fakes.model import answers, fake_model
from tests.fakes.telegram import TOKEN, FakeTelegram, fake_telegram

CHATS, MESSAGES, KILLS = 20, 4, 3
LIMIT_S = 150.0
PLACEHOLDER = "…"


class Victim:
    """A Hermes that is killed and started again."""

    def __init__(self, home: Path, environ: dict[str, str]) -> None:
        self._home = home
        self._environ = {**os.environ, **environ}
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start it; returns when it serves."""
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.chaos.gateway_process",
            str(self._home),
            env=self._environ,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        assert await self._process.stdout.readline() == b"ready\n"

    async def end(self, number: signal.Signals = signal.SIGKILL) -> None:
        """End it; returns when it is gone."""
        assert self._process is not None
        self._process.send_signal(number)
        await self._process.wait()


@asynccontextmanager
async def victim(home: Path, telegram: FakeTelegram, model_url: str) -> AsyncGenerator[Victim]:
    environ = {
        "HERMES_BASE_URL": model_url,
        "HERMES_MODEL": "scripted",
        "HERMES_SKILLS_BUNDLED": "false",
        "TELEGRAM_BOT_TOKEN": TOKEN,
        "TELEGRAM_BASE_URL": telegram.url,
        "TELEGRAM_ALLOWED_USERS": "7",
    }
    hermes = Victim(home, environ)
    await hermes.start()
    try:
        yield hermes
    finally:
        await hermes.end()


@pytest.mark.timeout(180)
async def test_every_message_is_answered_once(tmp_path: Path) -> None:
    script = answers({"text": "re: {user}", "chunk_chars": 4, "chunk_delay_s": 0.02})
    async with fake_telegram() as telegram, fake_model(script) as model:
        telegram.faults.drop_before = telegram.faults.drop_after = 0.03
        telegram.faults.limited, telegram.faults.redeliver = 0.01, 0.1
        telegram.faults.delay_s = 0.05
        async with victim(tmp_path, telegram, model.url) as hermes:
            assert not await _lost(telegram, hermes)
        for chat_id in range(1, CHATS + 1):
            said = Counter(text for text in telegram.texts(chat_id) if text != PLACEHOLDER)
            assert said == Counter(_answer(chat_id, number) for number in range(MESSAGES))
        assert not telegram.conflicts
    turns = await asyncio.to_thread(_rows, tmp_path, "agent", "SELECT state FROM turn")
    assert Counter(turns) == {("COMPLETED",): CHATS * MESSAGES}


async def _lost(telegram: FakeTelegram, hermes: Victim) -> set[int]:
    """The chats that wait for an answer when everybody should have had theirs."""
    waiting = set(range(1, CHATS + 1))
    with suppress(TimeoutError):
        async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as people:
            for chat_id in sorted(waiting):
                talk = people.create_task(_talk(telegram, chat_id))
                talk.add_done_callback(
                    lambda ended, chat_id=chat_id: ended.cancelled() or waiting.discard(chat_id)
                )
            people.create_task(_kill(telegram, hermes))
    return waiting


async def _talk(telegram: FakeTelegram, chat_id: int) -> None:
    """Somebody who says the next thing when the last one was answered."""
    for number in range(MESSAGES):
        await telegram.say(chat_id, f"{chat_id}/{number}")
        answer = _answer(chat_id, number)
        await telegram.until(lambda answer=answer: answer in telegram.texts(chat_id), LIMIT_S)


async def _kill(telegram: FakeTelegram, hermes: Victim) -> None:
    """Kill Hermes at seeded moments, spread over the whole conversation."""
    dice = random.Random(7)
    for kill in range(KILLS):
        threshold = (2 * kill + 1) * CHATS * MESSAGES // (2 * KILLS)
        await telegram.until(lambda threshold=threshold: _answered(telegram) >= threshold, LIMIT_S)
        await asyncio.sleep(dice.random() / 5)
        await hermes.end()
        await hermes.start()


def _answered(telegram: FakeTelegram) -> int:
    return sum(
        text.startswith("re: ") for chat_id in telegram.chats for text in telegram.texts(chat_id)
    )


def _answer(chat_id: int, number: int) -> str:
    return f"re: {chat_id}/{number}"


def _rows(home: Path, service: str, query: str) -> list[tuple[str, ...]]:
    with closing(sqlite3.connect(home / "state" / f"{service}.db")) as database:
        return database.execute(query).fetchall()
