"""A file on its whole way: out of a sandbox, over four services, into a chat."""

import asyncio
import hashlib
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.e2e.backends import sandboxed
from tests.e2e.deployment import beside, four_processes, running
from tests.e2e.model import TELL, calls, rule, terminal_call, tool_call
from tests.fakes.model import fake_model
from tests.fakes.telegram import TOKEN, FakeTelegram, fake_telegram

LARGE_BYTES = 20_000_000
"""Many times what one message between services may have."""
MAKE = f"printf '\\x89PNG\\r\\n' >a.png; head -c {LARGE_BYTES} /dev/urandom >a.bin"
SEND = rule(
    "send both",
    calls(terminal_call(MAKE)),
    calls(tool_call("send_message", message="Both.\nMEDIA:a.png\nMEDIA:/workspace/a.bin")),
    calls(terminal_call("sha256sum <a.bin")),
    TELL,
)


def sent(telegram: FakeTelegram) -> dict[str, bytes]:
    """The files of the chat by kind."""
    shown = telegram.chats[7].values()
    return {each.file.kind: each.file.data for each in shown if each.file is not None}


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_large_files_come_whole_and_leave_nothing_behind(tmp_path: Path) -> None:
    async with fake_telegram() as telegram, fake_model({"rules": [SEND]}) as model:
        settings = {
            "TELEGRAM_BOT_TOKEN": TOKEN,
            "TELEGRAM_BASE_URL": telegram.url,
            "TELEGRAM_ALLOWED_USERS": "7",
        }
        parts = (four_processes, tmp_path, model.url, sandboxed("bubblewrap"))
        made = await asyncio.to_thread(*parts, **settings)
        async with beside(running(made)):
            await telegram.say(7, "send both")
            await telegram.until(lambda: len(sent(telegram)) == 2, 120)
            digest = hashlib.sha256(sent(telegram)["document"]).hexdigest()
            await telegram.until(lambda: any(digest in it for it in telegram.texts(7)))
        assert sent(telegram)["photo"] == b"\x89PNG\r\n"
        assert len(sent(telegram)["document"]) == LARGE_BYTES
        assert "Both." in telegram.texts(7)
    assert await asyncio.to_thread(files_left, tmp_path) == 0


def files_left(folder: Path) -> int:
    """How many files the gateway still has."""
    (path,) = folder.rglob("gateway.db")
    with closing(sqlite3.connect(path)) as database:
        return database.execute("SELECT count(*) FROM attachment").fetchone()[0]
