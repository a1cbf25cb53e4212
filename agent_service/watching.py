"""Follows a turn for a watcher, wherever it is owned and however often that changes."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from weakref import WeakValueDictionary

from msgspec import Struct

from agent_service.events import Recorded, TurnFinished
from agent_service.hub import TurnStream
from agent_service.requests import TurnInfo
from agent_service.storage import turn_rows, turns
from services.clock import Clock
from services.database import Database
from services.errors import NotFound

POLL_S = 0.25
"""How often the journal is read for a turn that is not owned here."""
LOOK_S = 1.0
"""How often it is asked whether a turn has ended that another replica owns."""


class Elsewhere(Struct, frozen=True):
    """Ends the events that are found here: another replica owns the turn, and has them live."""

    endpoint: str


class Watching:
    """Finds a turn's events: in this process while it owns the turn, else in the journal."""

    def __init__(
        self,
        database: Database,
        stream_of: Callable[[str], TurnStream | None],
        owner_of: Callable[[TurnInfo], str],
        clock: Clock,
    ) -> None:
        self._database = database
        self._owner_of = owner_of
        self._stream_of = stream_of
        self._clock = clock
        self._awaited: WeakValueDictionary[str, asyncio.Event] = WeakValueDictionary()
        """What the watchers of a turn wait for while it is not owned here, as long as any does."""

    def owned(self, turn_id: str) -> None:
        """Lead the watchers of a turn to its live events, which this process has from now on."""
        if (awaited := self._awaited.pop(turn_id, None)) is not None:
            awaited.set()

    async def ended(self, turn_id: str, profile: str) -> TurnFinished:
        """How a turn ends, wherever that is."""
        last = 0
        while True:
            async with aclosing(self.watch(turn_id, profile, last)) as batches:
                async for batch in batches:
                    if not isinstance(batch, list):
                        break
                    last = max(last, *(item.sequence for item in batch))
                    if isinstance(finished := batch[-1].event, TurnFinished):
                        return finished
            await asyncio.sleep(LOOK_S)

    async def watch(
        self, turn_id: str, profile: str, after: int
    ) -> AsyncGenerator[list[Recorded] | Elsewhere]:
        """The events after a sequence, durable ones once each, in batches.

        They end with TurnFinished, or with where the turn's owner is.
        """
        last = after
        while True:
            stream = self._stream_of(turn_id)
            if stream is not None and stream.profile != profile:
                raise NotFound(f"there is no turn {turn_id}")
            is_over, owner = False, ""
            if stream is None:
                found, turn = await self._journaled(turn_id, profile, last)
                is_over, owner = turn.is_finished, self._owner_of(turn)
                if found:
                    yield found
                    last = found[-1].sequence
            else:
                async with aclosing(self._live(stream, last)) as batches:
                    async for batch in batches:
                        yield batch
                        last = max(last, *(item.sequence for item in batch))
                        is_over = isinstance(batch[-1].event, TurnFinished)
            if is_over:
                return
            if owner:
                yield Elsewhere(owner)
                return
            if stream is None:
                await self._until_owned(turn_id)

    async def turn(self, turn_id: str, profile: str) -> TurnInfo:
        """The turn as the journal has it."""
        return await self._database.read(lambda conn: turns.get(conn, turn_id, profile))

    async def _until_owned(self, turn_id: str) -> None:
        """Return once this process owns the turn, or when it is time for another look."""
        if self._stream_of(turn_id) is not None:
            return  # since the journal was read
        awaited = self._awaited.setdefault(turn_id, asyncio.Event())
        with suppress(TimeoutError):
            async with asyncio.timeout(POLL_S):
                await awaited.wait()

    async def _live(self, stream: TurnStream, after: int) -> AsyncGenerator[list[Recorded]]:
        subscription = stream.subscribe(after, self._clock.now())
        try:
            async for batch in subscription.events():
                yield batch
        finally:
            stream.unsubscribe(subscription)

    async def _journaled(
        self, turn_id: str, profile: str, after: int
    ) -> tuple[list[Recorded], TurnInfo]:
        return await self._database.read(
            lambda conn: (
                turn_rows.events_after(conn, turn_id, after),
                turns.get(conn, turn_id, profile),
            )
        )
