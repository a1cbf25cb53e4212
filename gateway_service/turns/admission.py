"""Reads a chat's events together with what their senders may do, and turns unknown people away."""

from collections.abc import Sequence

from msgspec import Struct
from sqlalchemy import Connection

from gateway_service.chats import pairing
from gateway_service.chats.access import Access
from gateway_service.messages import MessageEvent
from gateway_service.storage import inbox
from gateway_service.storage.accounts import OUTBOX, AccountLease
from gateway_service.storage.inbox import Waiting
from gateway_service.turns.edits import fold_edits
from gateway_service.turns.message_parts import gather, has_more, join, wait_for_more_s
from services.clock import Clock

STEP_S = 0.2
MOST_PARTS = 100


class Admission(Struct, frozen=True):
    """Who may talk to an account: its allow list, and the people who were let in by pairing."""

    _account: AccountLease
    _access: Access
    _clock: Clock

    async def next(self, key: str) -> tuple[Waiting, Access] | None:
        """Return the next event of a chat, once all parts of its message are there, and what its
        sender may do."""
        while True:
            waiting, access = await self._read(key)
            if not waiting:
                return None
            if not access.allows(waiting[0].event.source):
                return waiting[0], access
            waiting = fold_edits(waiting)
            parts = gather(waiting) if has_more(waiting[0]) else waiting[:1]
            wait_s = wait_for_more_s(parts[-1], self._clock.now())
            if wait_s <= 0:
                return join(parts), access
            await self._clock.sleep(min(wait_s, STEP_S))

    async def turn_away(self, waiting: Waiting) -> None:
        """Delete what an unknown person said; in a direct chat they may get a pairing code."""
        account, event, now = self._account, waiting.event, self._clock.now()
        source = event.source
        is_direct = isinstance(event, MessageEvent) and source.chat_type == "dm"
        is_person = bool(source.user_id) and not source.target

        def write(conn: Connection) -> None:
            inbox.ignore(conn, waiting.sequence, now)
            if self._access.pairs and is_direct and is_person:
                pairing.offer_code(conn, account, source, now)

        await account.write(write, notify=OUTBOX)

    async def _read(self, key: str) -> tuple[Sequence[Waiting], Access]:
        account = self._account

        def read(conn: Connection) -> tuple[Sequence[Waiting], Access]:
            ids = (account.platform, account.account_id)
            waiting = inbox.waiting_of_lane(conn, *ids, key, MOST_PARTS)
            if not waiting:
                return waiting, self._access
            person = pairing.person_of(account, waiting[0].event.source)
            return waiting, pairing.open_to(conn, self._access, person)

        return await account.database.read(read)
