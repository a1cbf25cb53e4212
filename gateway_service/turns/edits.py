"""Edited messages: a waiting one changes, and the last one of a chat is taken once more."""

from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from gateway_service.commands.registry import parse
from gateway_service.messages import Event, MessageEvent
from gateway_service.storage import inbox
from gateway_service.storage.accounts import AccountLease
from gateway_service.storage.inbox import Waiting

EDITED = "Edited: "
"""Before a new version of a message that was taken already."""


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
