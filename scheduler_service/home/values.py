"""Values of `cron/jobs.json`, read leniently: what is not as expected is as if it was not there."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, cast
from zoneinfo import ZoneInfo


def time_of(part: Mapping[str, Any], name: str, zone: str) -> datetime | None:
    """A time as such files have it, in UTC; one that names no zone is by the clock of `zone`."""
    try:
        at = datetime.fromisoformat(text_of(part, name))
        return (at if at.tzinfo else at.replace(tzinfo=ZoneInfo(zone))).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def part_of(given: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The object of that name; empty where there is none."""
    found = given.get(name)
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def text_of(part: Mapping[str, Any], name: str) -> str:
    """The text of that name; empty where there is none."""
    found = part.get(name)
    if isinstance(found, int) and not isinstance(found, bool):
        return str(found)  # as some platforms' chats are written
    return found.replace("\0", "") if isinstance(found, str) else ""


def list_of(part: Mapping[str, Any], name: str) -> list[str]:
    """The texts of that name, which may also be one with commas."""
    found = part.get(name)
    if isinstance(found, str):
        return [each.strip() for each in found.split(",") if each.strip()]
    listed: Iterable[object] = cast("list[object]", found) if isinstance(found, list) else ()
    return [each for each in listed if isinstance(each, str) and each.strip()]
