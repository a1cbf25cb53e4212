"""What is sent of a conversation that has become too long: pure functions over its messages.

The messages themselves stay in the database. A compaction says which of them are sent as they are,
and what stands for the others, so that every replica sends the same bytes.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from agent_service.records.model import encoded

PRUNED_BYTES = 600
"""A tool's result that is longer is left out once it is old."""
PLACEHOLDER = "[This result of {count} characters was left out to save room; run the tool again.]"


class Compaction(Struct, frozen=True):
    """How a session's messages, numbered from 1, are sent."""

    head: int = 0
    """The first messages, which are sent as they are."""
    through: int = 0
    """The last message for which the summary stands; equal to `head` where there is none."""
    pruned: int = 0
    """The last message whose result, if it is a long one, is left out."""
    summary: str = ""
    """The message that stands for what is left out, encoded."""

    def is_of(self, last: int) -> bool:
        """Whether it says something of no message behind the last one."""
        return max(self.through, self.pruned) <= last


NOTHING = Compaction()


class Conversation(Struct, frozen=True):
    """The messages of a session as they are sent, the system prompt first."""

    messages: Sequence[bytes]
    compaction: Compaction = NOTHING

    @property
    def first_kept(self) -> int:
        """Index of the first message behind the head and the summary."""
        return 1 + self.compaction.head + bool(self.compaction.summary)

    def number(self, index: int) -> int:
        """The number in the session of a message behind the head."""
        return self.compaction.through + 1 + index - self.first_kept

    def before_results(self, index: int) -> int:
        """The last index up to this one that parts no call from its results."""
        while 1 < index < len(self.messages) and is_result(self.messages[index]):
            index -= 1
        return index


def is_result(message: bytes) -> bool:
    """Whether a message is a tool's result; all are encoded with their role first."""
    return message.startswith(b'{"role":"tool"')


def pruned(message: bytes) -> bytes:
    """A message as it is sent when it is old."""
    if len(message) <= PRUNED_BYTES or not is_result(message):
        return message
    fields: dict[str, Any] = json.loads(message)
    return encoded({**fields, "content": PLACEHOLDER.format(count=len(str(fields["content"])))})


def sent(rows: Iterable[tuple[int, bytes]], compaction: Compaction) -> list[bytes]:
    """The messages of a session, given with their numbers, as they are sent."""
    messages: list[bytes] = []
    summary = compaction.summary.encode()
    for number, content in rows:
        if number <= compaction.head:
            messages.append(content)
        elif number > compaction.through:
            if summary:
                messages.append(summary)
                summary = b""
            messages.append(pruned(content) if number <= compaction.pruned else content)
    return [*messages, summary] if summary else messages


def headed(conversation: Conversation, protected: int) -> Conversation:
    """The conversation with a head of about so many messages, if it has none yet."""
    if conversation.compaction != NOTHING:
        return conversation
    head = conversation.before_results(min(1 + protected, len(conversation.messages))) - 1
    return Conversation(conversation.messages, Compaction(head, head, head))


def prune(conversation: Conversation, end: int) -> Conversation:
    """The conversation without long results between its head and an index."""
    first, kept = conversation.first_kept, conversation.messages
    if end <= first:
        return conversation
    messages = [*kept[:first], *map(pruned, kept[first:end]), *kept[end:]]
    last = max(conversation.compaction.pruned, conversation.number(end - 1))
    return Conversation(messages, replace(conversation.compaction, pruned=last))


def summarised(conversation: Conversation, end: int, summary: bytes) -> Conversation:
    """The conversation with a summary in place of what is between its head and an index."""
    was = conversation.compaction
    through = conversation.number(end - 1)
    made = Compaction(was.head, through, max(was.pruned, through), summary.decode())
    messages = [*conversation.messages[: 1 + was.head], summary, *conversation.messages[end:]]
    return Conversation(messages, made)
