"""What a person sends at once is one message: long texts, albums and forwards come in parts."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise

from msgspec.structs import replace

from gateway_service.commands.registry import parse
from gateway_service.messages import MessageEvent
from gateway_service.storage.inbox import Waiting

MOMENT = timedelta(seconds=1.5)
"""How soon the next part follows."""


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
        and said.joint is not None
        and more.source == said.source
        and parse(more.text) is None
        and following.received_at - last.received_at <= MOMENT
    )


def join(parts: Sequence[Waiting]) -> Waiting:
    """Return the parts of a message as one event, which closes them all."""
    first, *others = parts
    said = [each.event for each in parts if isinstance(each.event, MessageEvent)]
    if not others or not isinstance(first.event, MessageEvent):
        return first
    text = said[0].text
    for last, following in pairwise(said):
        text += (last.joint or "" if text and following.text else "") + following.text
    event = replace(
        first.event,
        text=text,
        replies_to=next((each.replies_to for each in said if each.replies_to), ""),
        quotes=tuple(quote for each in said for quote in each.quotes),
        files=tuple(file for each in said for file in each.files),
        joint=None,
    )
    closed = tuple(number for each in parts for number in (each.sequence, *each.others))
    return replace(first, event=event, others=closed[1:])
