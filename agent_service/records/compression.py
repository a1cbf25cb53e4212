"""Shortens long conversations: pure functions over their messages.

The database keeps all messages. A compression says which are sent unchanged and what replaces the
others, so that every replica sends the same bytes.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from agent_service.records.model import encoded

PRUNED_BYTES = 600
"""Longer tool results are left out once they are old."""
PLACEHOLDER = "[This result of {count} characters was left out to save room; run the tool again.]"


class Compression(Struct, frozen=True):
    """How a session's messages, numbered from 1, are sent."""

    head: int = 0
    """The number of first messages that are sent unchanged."""
    through: int = 0
    """The last message that the summary covers; equal to `head` if there is no summary."""
    pruned: int = 0
    """The last message whose long result is left out."""
    summary: str = ""
    """The encoded message that replaces what is left out."""

    def is_of(self, last: int) -> bool:
        """Return whether it refers to no message after the last one."""
        return max(self.through, self.pruned) <= last


NOTHING = Compression()


class Conversation(Struct, frozen=True):
    """A session's messages as sent, the system prompt first."""

    messages: Sequence[bytes]
    compression: Compression = NOTHING

    @property
    def first_kept(self) -> int:
        """Return the index of the first message after the head and the summary."""
        return 1 + self.compression.head + bool(self.compression.summary)

    def number(self, index: int) -> int:
        """Return the session's number of a message after the head."""
        return self.compression.through + 1 + index - self.first_kept

    def before_results(self, index: int) -> int:
        """Return the last index up to this one that does not separate a call from its results."""
        while 1 < index < len(self.messages) and is_result(self.messages[index]):
            index -= 1
        return index


def is_result(message: bytes) -> bool:
    """Return whether a message is a tool result; all are encoded with their role first."""
    return message.startswith(b'{"role":"tool"')


def pruned(message: bytes) -> bytes:
    """Return an old message as it is sent."""
    if len(message) <= PRUNED_BYTES or not is_result(message):
        return message
    fields: dict[str, Any] = json.loads(message)
    return encoded({**fields, "content": PLACEHOLDER.format(count=len(str(fields["content"])))})


def apply_compression(rows: Iterable[tuple[int, bytes]], compression: Compression) -> list[bytes]:
    """Return a session's messages, given with their numbers, as they are sent."""
    messages: list[bytes] = []
    summary = compression.summary.encode()
    for number, content in rows:
        if number <= compression.head:
            messages.append(content)
        elif number > compression.through:
            if summary:
                messages.append(summary)
                summary = b""
            messages.append(pruned(content) if number <= compression.pruned else content)
    return [*messages, summary] if summary else messages


def headed(conversation: Conversation, protected: int) -> Conversation:
    """Return the conversation with a head of about `protected` messages, unless it has one."""
    if conversation.compression != NOTHING:
        return conversation
    head = conversation.before_results(min(1 + protected, len(conversation.messages))) - 1
    return Conversation(conversation.messages, Compression(head, head, head))


def prune(conversation: Conversation, end: int) -> Conversation:
    """Leave out long results between the head and an index."""
    first, kept = conversation.first_kept, conversation.messages
    if end <= first:
        return conversation
    messages = [*kept[:first], *map(pruned, kept[first:end]), *kept[end:]]
    last = max(conversation.compression.pruned, conversation.number(end - 1))
    return Conversation(messages, replace(conversation.compression, pruned=last))


def summarised(conversation: Conversation, end: int, summary: bytes) -> Conversation:
    """Put a summary in place of the messages between the head and an index."""
    was = conversation.compression
    through = conversation.number(end - 1)
    made = Compression(was.head, through, max(was.pruned, through), summary.decode())
    messages = [*conversation.messages[: 1 + was.head], summary, *conversation.messages[end:]]
    return Conversation(messages, made)
