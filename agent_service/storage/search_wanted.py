"""What is looked for among messages, and which of them it is to be found in."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from msgspec import Struct

from agent_service.search.query import Query
from agent_service.storage.search_index import id_at, token


class Find(NamedTuple):
    """A statement that finds ids, and what it is given."""

    sql: str
    values: Mapping[str, Any]


class Wanted(Struct, frozen=True):
    """What is looked for."""

    profile: str
    query: Query
    session_id: str = ""
    """Only in this session, and there also what it was branched from; empty means in all."""
    role: str = ""
    since: datetime | None = None
    until: datetime | None = None
    between: tuple[int, int] | None = None
    """Only messages of these sequences, both included."""
    excluding: tuple[str, ...] = ()
    """Not in these sessions."""
    before: int | None = None
    """Only what comes after the hit of this id in the order of time, newest first."""

    def limits(self) -> Mapping[str, int]:
        """The first and the last id that may be found, and such sequences."""
        least = 0 if self.since is None else id_at(self.since)
        greatest = (1 << 63) - 1 if self.until is None else id_at(self.until) - 1
        if self.before is not None:
            greatest = min(greatest, self.before - 1)
        limits = {"least": least, "greatest": greatest}
        if self.between:
            limits |= {"from_sequence": self.between[0], "to_sequence": self.between[1]}
        return limits

    def scope(self) -> tuple[list[str], list[str]]:
        """The tokens that a message's scope has to have, and those that it must not."""
        # A copy has no token of its profile, so that only its session has it.
        where = token("S", self.session_id) if self.session_id else token("P", self.profile)
        role = [token("R", self.role)] if self.role else []
        return [where, *role], [token("S", session_id) for session_id in self.excluding]
