"""When a chat has been quiet for so long that its next message begins a new session; pure."""

from datetime import date, datetime, time, timedelta, tzinfo
from enum import StrEnum

from msgspec import Struct

_TICK = timedelta(microseconds=1)


class Mode(StrEnum):
    """What ends a session."""

    NONE = "none"
    IDLE = "idle"
    DAILY = "daily"
    BOTH = "both"


class ResetPolicy(Struct, frozen=True):
    """What ends the sessions of a platform's chats."""

    mode: Mode = Mode.NONE
    at_hour: int = 4
    idle: timedelta = timedelta(days=1)
    zone: tzinfo | None = None
    """None is the machine's."""

    def cutoff(self, now: datetime) -> datetime | None:
        """Sessions that were last used before it end now; None where none does."""
        cutoffs: list[datetime] = []
        if self.mode in (Mode.IDLE, Mode.BOTH):
            cutoffs.append(now - self.idle + _TICK)
        if self.mode in (Mode.DAILY, Mode.BOTH):
            cutoffs.append(self._last_hour(now))
        return max(cutoffs, default=None)

    def why(self, last_used: datetime, now: datetime) -> Mode:
        """What ends a session that ends now: the day, where both do."""
        is_of_before = self.mode is not Mode.IDLE and last_used < self._last_hour(now)
        return Mode.DAILY if is_of_before else Mode.IDLE

    def _last_hour(self, now: datetime) -> datetime:
        """When it last was that hour; where clocks leap over it, the moment of the leap."""
        today = now.astimezone(self.zone).date()
        instants = (self._instant(today - timedelta(days=days)) for days in range(3))
        return next(instant for instant in instants if instant <= now)

    def _instant(self, day: date) -> datetime:
        # An hour that comes twice is meant the first time, as it is read without a fold.
        local = datetime.combine(day, time(self.at_hour))
        local = local.astimezone() if self.zone is None else local.replace(tzinfo=self.zone)
        return datetime.fromtimestamp(local.timestamp(), tz=local.tzinfo)
