"""Imports the people and channels of an older home, once for each profile."""

import asyncio
import json
import logging
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, cast

from msgspec import Struct
from sqlalchemy import Connection

from gateway_service.storage import channels, pairings
from gateway_service.storage.channels import Channel, Place, clean_name
from gateway_service.storage.pairings import Pairing, Person
from services.clock import Clock
from services.database import Database
from services.database.retries import until_answered

_APPROVED = "-approved"
_PLATFORM = re.compile(r"[a-z][a-z0-9_]{0,31}")
_TYPES = ("dm", "group", "channel", "thread")
_ID_CHARS = 255

_log = logging.getLogger(__name__)


class OldHome(Struct, frozen=True):
    """What an older home says of people and channels."""

    people: tuple[Pairing, ...]
    channels: tuple[Channel, ...]


async def import_home(database: Database, clock: Clock, root: Path, profile: str) -> None:
    """Import the files of a home, unless they were imported before."""
    found = await asyncio.to_thread(read_home, root, profile, clock.now())
    if not found.people and not found.channels:
        return
    store = partial(_store, profile=profile, found=found, now=clock.now())
    is_new = await until_answered(clock, "the import of people", partial(database.write, store))
    if is_new:
        people, known = len(found.people), len(found.channels)
        _log.info("imported %d approved people and %d channels of %s", people, known, root)


def read_home(root: Path, profile: str, now: datetime) -> OldHome:
    """Read the files of a home leniently: what cannot be read is left out."""
    people: list[Pairing] = []
    for path in sorted((root / "pairing").glob(f"*{_APPROVED}.json")):
        platform = path.stem.removesuffix(_APPROVED)
        if _PLATFORM.fullmatch(platform):
            people += _people(_read(path), profile, platform, now)
    listed = _mapping(_mapping(_read(root / "channel_directory.json")).get("platforms"))
    found = [
        each
        for platform, entries in listed.items()
        if _PLATFORM.fullmatch(platform)
        for each in _channels(platform, entries, now)
    ]
    return OldHome(tuple(people), tuple(found))


def _store(conn: Connection, profile: str, found: OldHome, now: datetime) -> bool:
    if not channels.begin_import(conn, profile, now):
        return False
    for person in found.people:
        if pairings.find(conn, person.person) is None:
            pairings.put(conn, person)
    for each in found.channels:
        channels.add(conn, profile, each)
    return True


def _people(given: object, profile: str, platform: str, now: datetime) -> Iterator[Pairing]:
    for user_id, about in _mapping(given).items():
        if 0 < len(user_id) <= _ID_CHARS:
            facts = _mapping(about)
            name = clean_name(str(facts.get("user_name") or ""))
            at = _time(facts.get("approved_at")) or now
            person = Person(profile, platform, user_id)
            yield Pairing(person, name, approved_at=at, approved_by="import")


def _channels(platform: str, entries: object, now: datetime) -> Iterator[Channel]:
    for entry in cast("list[object]", entries) if isinstance(entries, list) else ():
        facts = _mapping(entry)
        chat_id, thread_id = str(facts.get("id") or ""), str(facts.get("thread_id") or "")
        if thread_id and chat_id.endswith(f":{thread_id}"):
            chat_id = chat_id.removesuffix(f":{thread_id}")
        if not 0 < len(chat_id) <= _ID_CHARS or len(thread_id) > _ID_CHARS:
            continue
        kind = facts.get("type")
        name = clean_name(str(facts.get("name") or ""))
        place = Place(platform, chat_id, thread_id)
        yield Channel(place, name, kind if kind in _TYPES else "channel", now)


def _read(path: Path) -> object:
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        _log.warning("%s is not imported: %s", path, error)
        return None


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def _time(value: object) -> datetime | None:
    """Return a time that is given as seconds since 1970 or in ISO 8601."""
    try:
        if isinstance(value, (int, float)):
            return datetime.fromtimestamp(value, UTC)
        return datetime.fromisoformat(str(value)).astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return None
