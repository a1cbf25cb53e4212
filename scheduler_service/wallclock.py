"""Wall times and instants, across daylight saving; pure functions."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

_SECOND = timedelta(seconds=1)


def offset_at(at: datetime, zone: ZoneInfo) -> timedelta:
    """How far the zone's wall clock is ahead of UTC at an instant."""
    offset = at.astimezone(zone).utcoffset()
    assert offset is not None
    return offset


def instant_of(wall: datetime, zone: ZoneInfo) -> datetime:
    """The instant, in UTC, of a naive wall time: the first of two; in a gap, the gap's end."""
    at = wall.replace(tzinfo=zone).astimezone(UTC)
    if at.astimezone(zone).replace(tzinfo=None) == wall:
        return at
    # In a gap the later offset reads the wall time as an instant before the gap, the earlier one
    # as an instant beyond it; the gap's end is where the offset changes between the two.
    before, beyond = wall.replace(tzinfo=zone, fold=1).astimezone(UTC), at
    offset = offset_at(beyond, zone)
    while beyond - before > _SECOND:
        middle = before + (beyond - before) // 2
        if offset_at(middle, zone) == offset:
            beyond = middle
        else:
            before = middle
    return beyond.replace(microsecond=0)
