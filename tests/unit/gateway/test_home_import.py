"""People and channels of an older home."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gateway_service.chats.home_import import import_home, read_home
from gateway_service.chats.pairing import Pairings
from gateway_service.storage import channels, migrations
from gateway_service.storage.channels import Place
from gateway_service.storage.pairings import Person
from services.database import Database
from services.database.migrations import prepare
from tests.fakes.clock import ManualClock

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def write(root: Path, name: str, value: Any) -> None:
    path = root / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))


def lay_out(tmp_path: Path) -> None:
    people = {"7": {"user_name": "Ada", "approved_at": 1767225600.5}, "8": None, "": {}}
    write(tmp_path, "pairing/telegram-approved.json", people)
    write(tmp_path, "pairing/telegram-pending.json", {"ABCD2345": {"user_id": "9"}})
    write(tmp_path, "pairing/slack-approved.json", "no JSON")
    write(tmp_path, "pairing/Ö-approved.json", {"1": {}})
    entries = [
        {"id": "-5", "name": "Fam\nily", "type": "group"},
        {"id": "-6:17", "name": "Topic", "type": "forum", "thread_id": "17"},
        {"name": "nowhere"},
        "odd",
    ]
    write(tmp_path, "channel_directory.json", {"platforms": {"telegram": entries, "slack": 3}})


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    async with Database(f"sqlite:///{tmp_path}/gateway.db", "gateway") as opened:
        await prepare(opened, migrations)
        yield opened


async def test_people_and_channels_are_imported_once(tmp_path: Path, database: Database) -> None:
    await asyncio.to_thread(lay_out, tmp_path)
    clock = ManualClock(NOW)
    known = Pairings(database, clock)
    for _ in range(2):
        await import_home(database, clock, tmp_path, "default")
        found = {each.person.user_id: each for each in await known.list("default")}
        assert {user_id: each.user_name for user_id, each in found.items()} in (
            {"7": "Ada", "8": ""},
            {"7": "Ada"},
        )
        assert found["7"].approved_at == datetime(2026, 1, 1, 0, 0, 0, 500_000, UTC)
        if "8" in found:
            await known.revoke(Person("default", "telegram", "8"), "cli:me")
    assert [each.person.user_id for each in await known.list("default")] == ["7"]
    listed = await database.read(lambda conn: channels.list_channels(conn, "default"))
    assert {(each.place, each.name, each.chat_type) for each in listed} == {
        (Place("telegram", "-5"), "Fam ily", "group"),
        (Place("telegram", "-6", "17"), "Topic", "channel"),
    }


def test_a_home_without_such_files_is_empty(tmp_path: Path) -> None:
    found = read_home(tmp_path, "default", NOW)
    assert not found.people
    assert not found.channels
