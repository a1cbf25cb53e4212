"""The inbox: events are stored before they are acknowledged."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias, TypeVar, cast

from msgspec import Struct, ValidationError, to_builtins
from msgspec.structs import replace
from sqlalchemy import Connection

from gateway_service.chats.sessions import is_shared, session_key
from gateway_service.config import GatewayConfig
from gateway_service.messages import Event, MessageEvent, TurnRequest
from gateway_service.metrics import GatewayMetrics
from gateway_service.platforms.base import Received
from gateway_service.storage import accounts, chats, inbox, notifications
from gateway_service.storage.accounts import INBOX, AccountLease
from gateway_service.storage.channels import follow
from services.clock import Clock
from services.database import Database
from services.redaction.redactor import Redactor
from services.telemetry.tracing import span
from services.validation import convert

_log = logging.getLogger(__name__)

ID_CHARS, EVENT_ID_CHARS = 255, 512

_T = TypeVar("_T")
Write: TypeAlias = Callable[[Callable[[Connection], int], str], Awaitable[int]]


class Inbox(Struct, frozen=True):
    """Stores each event once, without secrets."""

    _database: Database
    _clock: Clock
    _metrics: GatewayMetrics
    _config: GatewayConfig
    _redactor: Redactor

    async def accept(self, turn: TurnRequest, event_id: str) -> tuple[TurnRequest, bool]:
        """Store a client's message; return its turn, known or new, and whether that is open."""
        key, now = session_key(turn.source), self._clock.now()
        notes, redact = turn.notes_above, self._redactor.redact
        clean = replace(
            turn,
            text=redact(turn.text),
            system_message=redact(turn.system_message),
            earlier=tuple(replace(each, text=redact(each.text)) for each in turn.earlier),
            notes_above=notes and replace(notes, text=redact(notes.text)),
        )

        def accept(conn: Connection) -> tuple[TurnRequest, bool]:
            chosen = chats.busy_mode(conn, turn.profile, key)
            new = replace(
                clean, busy_mode=chosen or self._config.busy.mode_for(turn.source.platform)
            )
            return inbox.accept_client(conn, new, event_id, key, now)

        known, is_open = await self._database.write(accept)
        if known.turn_id != turn.turn_id:
            self._metrics.duplicates.inc()
        return known, is_open

    async def receive(self, account: AccountLease, received: Received) -> None:
        """Store what an account has received, before it is acknowledged to the platform."""
        owner = inbox.Account(account.profile, account.platform, account.account_id)
        await self._store(owner, received, account.write)

    async def receive_webhook(self, owner: inbox.Account, received: Received) -> None:
        """Store what a platform sent to this replica, which may not hold the account."""
        await self._store(owner, received, self._database.write)

    async def _store(self, owner: inbox.Account, received: Received, write: Write) -> None:
        sound = [each for each in (_sound(it, owner) for it in received.events) if each]
        rows = {event.event_id: self._clean(event) for event in sound}
        moves = [each for each in (_sound(it, owner) for it in received.moves) if each]
        failed = [each for each in (_sound(it, owner) for it in received.failures) if each]
        now = self._clock.now()

        def store(conn: Connection) -> int:
            new = inbox.add(conn, owner, rows, now)
            for move in moves:
                follow(conn, owner, move)
            for failure in failed:
                notifications.note_failure(conn, owner, failure, now)
            if received.cursor:
                accounts.store_cursor(conn, owner.id, received.cursor)
            return new

        new = await write(store, INBOX)
        self._metrics.duplicates.inc(len(sound) - new)

    def _clean(self, event: Event) -> tuple[str, Event]:
        """Return an event without its secrets, and the key of its session."""
        source = replace(event.source, is_shared=is_shared(event.source, self._config))
        if isinstance(event, MessageEvent):
            quotes = tuple(
                replace(each, text=self._redactor.redact(each.text)) for each in event.quotes
            )
            event = replace(event, text=self._redactor.redact(event.text), quotes=quotes)
            with span("receive", {"messaging.system": source.platform}) as received:
                event = replace(event, traceparent=received.traceparent)
        return session_key(source), replace(event, source=source)


def _sound(record: _T, owner: inbox.Account) -> _T | None:
    """Return a record that can be stored and read again; None for others, which hold up a chat.

    Libraries of platforms hand on what the platform says, not what it promises.
    """
    try:
        found = convert(_storable(to_builtins(record)), type(record))
    except ValidationError as error:
        _log.error("an event of %s is passed over: %s", owner.platform, error)
        return None
    source = getattr(found, "source", None)
    ids = (getattr(source, name, "") for name in ("chat_id", "thread_id", "user_id"))
    if max(map(len, ids)) > ID_CHARS or len(getattr(found, "event_id", "")) > EVENT_ID_CHARS:
        _log.error("an event of %s has too long an id and is passed over", owner.platform)
        return None
    return found


def _storable(value: Any) -> Any:
    """Return builtins without what PostgreSQL cannot store: NUL, and halves of surrogate pairs."""
    if isinstance(value, str):
        return value.replace("\0", "").encode(errors="replace").decode()
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {name: _storable(each) for name, each in items}
    if isinstance(value, list | tuple):
        return [_storable(each) for each in cast("Sequence[Any]", value)]
    return value
