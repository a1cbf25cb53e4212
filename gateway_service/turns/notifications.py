"""Notifications for connected clients: deliveries that wait until a client reads them."""

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta

from msgspec import Struct, field
from sqlalchemy import Connection

from gateway_service.messages import CLI
from gateway_service.metrics import GatewayMetrics
from gateway_service.storage import notifications, outbox
from gateway_service.storage.outbox import Part, State
from services.clock import Clock
from services.database import Database

CHANNEL = "gateway_notifications"
"""Signals that there may be notifications."""

POLL_S = 30.0
RESEND_AFTER = timedelta(seconds=30)
"""A notification whose reader vanished is sent again after this time, marked as a possible repeat.
"""


class Reader(Struct, frozen=True, eq=False):
    """A conversation that takes notifications."""

    profile: str
    session_id: Callable[[], str]
    """Returns its current session."""
    woken: asyncio.Event = field(default_factory=asyncio.Event)


class TerminalNotifications:
    """Gives each notification to one reader."""

    def __init__(self, database: Database, clock: Clock, metrics: GatewayMetrics) -> None:
        self._database = database
        self._clock = clock
        self._metrics = metrics
        self._readers: list[Reader] = []

    @contextmanager
    def reading(self, profile: str, session_id: Callable[[], str]) -> Generator[Reader]:
        """Register a reader for as long as its conversation is open."""
        reader = Reader(profile, session_id)
        self._readers.append(reader)
        try:
            yield reader
        finally:
            self._readers.remove(reader)
            self._wake()  # this reader's notifications are now another's

    async def run(self) -> None:
        hint = self._database.listen(CHANNEL)
        while True:
            await hint.wait(POLL_S)
            self._wake()

    async def take(self, reader: Reader) -> Part | None:
        """Return the next notification for a reader to send; None if there is none."""
        while True:
            part = await self._first_for(reader)
            if part is None or await self._begin(part):
                return part

    async def settle(self, part: Part) -> None:
        state, now = State.MARKED_DUPLICATE if part.uncertain else State.SENT, self._clock.now()

        def write(conn: Connection) -> None:
            outbox.settle(conn, part, state, now)

        await self._database.write(write)
        self._metrics.deliveries.labels(CLI, state.value.lower()).inc()

    async def _first_for(self, reader: Reader) -> Part | None:
        now = self._clock.now()
        found = await self._database.read(
            lambda conn: notifications.waiting(conn, reader.profile, now)
        )
        return next((part for part in found if self._is_for(part, reader)), None)

    async def _begin(self, part: Part) -> bool:
        until = self._clock.now() + RESEND_AFTER
        return await self._database.write(lambda conn: notifications.begin(conn, part, until))

    def _is_for(self, part: Part, reader: Reader) -> bool:
        """A reader gets its session's notifications; the newest one also gets all others."""
        session_id = part.address.chat_id
        if session_id == reader.session_id():
            return True
        of_profile = [each for each in self._readers if each.profile == reader.profile]
        is_newest = bool(of_profile) and of_profile[-1] is reader
        return is_newest and all(each.session_id() != session_id for each in of_profile)

    def _wake(self) -> None:
        for reader in self._readers:
            reader.woken.set()
