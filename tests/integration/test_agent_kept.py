"""What the calls of a session keep of each other: read once, and right on whichever replica."""

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest
import pytest_asyncio
import sqlalchemy as sa
from sqlalchemy import Connection

from agent_service.calls import PendingCall
from agent_service.context.compaction import NOTHING
from agent_service.contexts import ToolContexts
from agent_service.live_turn import LiveTurn
from agent_service.models.base import ToolCall
from agent_service.prompt.overlays import NOTHING as NO_OVERLAY
from agent_service.requests import TurnRequest, Unattended
from agent_service.security.threats import ThreatScanner
from agent_service.skills.files import HomeSkillFiles
from agent_service.skills.shelf import SkillShelves
from agent_service.storage import claims, journal, turns
from agent_service.storage.claims import Claimant, turn_leases
from agent_service.storage.schema import metadata, session_state
from agent_service.storage.sessions import revision_after
from agent_service.storage.turns import SessionDraft
from agent_service.tools.base import SessionState
from agent_service.turns import Conversations
from services.clock import SystemClock
from services.database import Database
from services.ids import new_id
from services.leases import Fenced, new_owner

T = TypeVar("T")
DEFAULTS = journal.Defaults(9, 1000, timedelta(minutes=1), Unattended.DENY)
FOLDER, OTHER = "judged_folder", "anything"
BEGUN = datetime(2026, 1, 1, tzinfo=UTC)
LEASES = turn_leases(0)
"""Which end at once, so that anybody takes a turn over."""
CALL = PendingCall("trn_1:2", ToolCall("call_1", "terminal", "{}"), 2, 2)


class Counted(Database):
    """A database that counts how often it is read."""

    reads = 0

    async def read(self, fn: Callable[[Connection], T]) -> T:
        """Count it."""
        self.reads += 1
        return await super().read(fn)


class Session:
    """A session whose turn has several owners."""

    def __init__(self, database: Counted, library: Path) -> None:
        self.database = database
        self.id, self.turn_id = new_id("session"), new_id("trn")
        unused: Any = None
        clock, scanner = SystemClock(), ThreatScanner()
        shelves = SkillShelves(lambda _profile: HomeSkillFiles(library), clock, scanner)
        self._contexts = ToolContexts(database, LEASES, unused, shelves, unused)

    async def begin(self, hot: journal.Hot | None = None) -> LiveTurn:
        """The turn as its first owner has it."""
        request = TurnRequest(self.turn_id, "", self.id, "hi", {"platform": "cli"}, "message")

        def store(conn: Connection) -> None:
            turns.store(conn, request, "scripted", SessionDraft("", ""), BEGUN)

        await self.database.write(store)
        return await self.taken_over(hot)

    async def taken_over(self, hot: journal.Hot | None = None) -> LiveTurn:
        """The turn as its next owner has it."""

        def take(conn: Connection) -> LiveTurn:
            claimant = Claimant(new_owner("test"), "", LEASES)
            claimed = claims.claim(conn, self.turn_id, claimant, SystemClock().now())
            assert claimed is not None
            return journal.load(conn, claimed, DEFAULTS, hot).turn

        return await self.database.write(take)

    def state(self, turn: LiveTurn) -> SessionState:
        """What a call of the turn is given."""
        return self._contexts.of(turn, CALL, print).state

    async def stored(self, name: str, value: Any = None) -> Any:
        """What is stored; another value takes its place where one is given."""
        which = (session_state.c.session_id == self.id) & (session_state.c.name == name)
        found = sa.select(session_state.c.value).where(which)
        if value is not None:
            change = sa.update(session_state).where(which).values(value=value)
            await self.database.write(lambda conn: conn.execute(change))
        return await self.database.read(lambda conn: conn.execute(found).scalar_one())


@pytest_asyncio.fixture
async def session(database_url: str, tmp_path: Path) -> AsyncIterator[Session]:
    """A session."""
    async with Counted(database_url, "agent") as database:
        await database.migrate(metadata.create_all)
        yield Session(database, tmp_path)


async def test_what_its_calls_alone_change_is_read_once(session: Session) -> None:
    turn = await session.begin()
    assert await session.state(turn).get(FOLDER) is None
    for name in (FOLDER, OTHER):
        await session.state(turn).put(name, "first")
        assert await session.stored(name) == "first"
        await session.stored(name, "second")
    reads = session.database.reads
    assert await session.state(turn).get(FOLDER) == "first"
    assert session.database.reads == reads
    assert await session.state(turn).get(OTHER) == "second", "others may change it"


async def test_who_takes_the_turn_over_has_what_is_stored(session: Session) -> None:
    turn = await session.begin()
    await session.state(turn).put(FOLDER, "first")
    later = await session.taken_over()
    assert await session.state(later).get(FOLDER) == "first"
    await session.state(later).put(FOLDER, "second")
    with pytest.raises(Fenced):
        await session.state(turn).put(FOLDER, "third")
    assert await session.state(later).get(FOLDER) == "second"


async def test_the_next_turn_of_a_hot_session_has_it_at_hand(session: Session) -> None:
    conversations = Conversations()
    before = journal.Hot(
        revision_after(-1, BEGUN), 0, [], NOTHING, NO_OVERLAY, 0.3, {FOLDER: "first"}
    )
    turn = await session.begin(before)
    assert await session.state(turn).get(FOLDER) == "first"
    await session.state(turn).put(FOLDER, "second")
    conversations.keep(turn)
    hot = conversations.get(session.id)
    assert hot is not None
    assert (before.kept, hot.kept) == ({FOLDER: "first"}, {FOLDER: "second"})
