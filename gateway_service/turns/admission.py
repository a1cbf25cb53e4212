"""Reads whole messages: edits and parts joined, with what their senders may do."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import Connection

from gateway_service.chats import pairing
from gateway_service.chats.access import Access
from gateway_service.commands.registry import parse
from gateway_service.messages import Event, MessageEvent
from gateway_service.storage import inbox
from gateway_service.storage.accounts import OUTBOX, AccountLease
from gateway_service.storage.inbox import Waiting
from services.clock import Clock

STEP_S = 0.2
MOST_PARTS = 100
EDITED = "Edited: "
"""Before a new version of a message that was taken already."""
MOMENT = timedelta(seconds=1.5)
"""How soon the next part follows."""


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


def fold_edits(waiting: Sequence[Waiting]) -> list[Waiting]:
    """Return a chat's events with new versions of messages in the place of these."""
    folded: list[Waiting] = []
    for each in waiting:
        event = each.event
        index = next((index for index, it in enumerate(folded) if _is_edited(it, event)), None)
        if index is None or not isinstance(event, MessageEvent):
            folded.append(each)
        else:
            folded[index] = _edit(folded[index], each, event.text)
    return folded


def _is_edited(waiting: Waiting, edit: Event) -> bool:
    """Return whether an event is a new version of a waiting one, by the same person.

    On some platforms anybody can name any message as the one that an edit is of.
    """
    event = waiting.event
    return (
        isinstance(event, MessageEvent)
        and isinstance(edit, MessageEvent)
        and event.message_id == edit.edits != ""
        and event.source.user_id == edit.source.user_id
    )


def _edit(original: Waiting, edit: Waiting, text: str) -> Waiting:
    assert isinstance(original.event, MessageEvent)
    event = replace(original.event, text=text)
    return replace(original, event=event, others=(*original.others, edit.sequence))


async def find_new_version(
    account: AccountLease, key: str, sequence: int, event: MessageEvent
) -> MessageEvent | None:
    """Return the new version of a chat's last message, to be taken as a message; None if it changes
    nothing, or an older message."""
    ids = (account.platform, account.account_id, key)
    find = partial(inbox.last_message, ids=ids, before=sequence)
    message_id, text = await account.database.read(find)
    is_new = event.text.strip() not in ("", text.removeprefix(EDITED).strip())
    if message_id != event.edits or not is_new:
        return None
    await account.write(partial(inbox.take_edit, sequence=sequence, message_id=event.edits))
    is_command = parse(event.text) is not None
    text = event.text if is_command else f"{EDITED}{event.text}"
    # Its files are known from the first version.
    return replace(event, text=text, files=(), joint=None)


def gather(waiting: Sequence[Waiting]) -> list[Waiting]:
    """Return the first event of a chat and those that belong to its message."""
    parts = [*waiting[:1]]
    for each in waiting[1:]:
        if _continues(parts[-1], each):
            parts.append(each)
    return parts


def has_more(waiting: Waiting) -> bool:
    """Return whether a message usually has further parts."""
    return isinstance(waiting.event, MessageEvent) and waiting.event.joint is not None


def wait_for_more_s(last: Waiting, now: datetime) -> float:
    """Return how long to wait for a part after the last one."""
    return (last.received_at + MOMENT - now).total_seconds() if has_more(last) else 0.0


def _continues(last: Waiting, following: Waiting) -> bool:
    said, more = last.event, following.event
    return (
        isinstance(said, MessageEvent)
        and isinstance(more, MessageEvent)
        and (said.joint is not None or (parse(said.text) is None and _is_forwarded(more)))
        and more.source == said.source
        and parse(more.text) is None
        and following.received_at - last.received_at <= MOMENT
    )


def _is_forwarded(message: MessageEvent) -> bool:
    return any(quote.is_forwarded for quote in message.quotes)


def join(parts: Sequence[Waiting]) -> Waiting:
    """Return the parts of a message as one event, which closes them all."""
    first, *others = parts
    messages = [each.event for each in parts if isinstance(each.event, MessageEvent)]
    if not others or not isinstance(first.event, MessageEvent):
        return first
    text = messages[0].text
    for last, following in pairwise(messages):
        text += (last.joint or "" if text and following.text else "") + following.text
    event = replace(
        first.event,
        text=text,
        replies_to=next((each.replies_to for each in messages if each.replies_to), ""),
        quotes=tuple(quote for each in messages for quote in each.quotes),
        files=tuple(file for each in messages for file in each.files),
        joint=None,
    )
    closed = tuple(number for each in parts for number in (each.sequence, *each.others))
    return replace(first, event=event, others=closed[1:])
