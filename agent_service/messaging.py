"""Messages to chats besides the answer: where they may go, and the seam to who sends them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

ORIGIN = "origin"
NO_CHATS = ("cli", "scheduler")
"""Where messages come from that nobody can be sent anything at."""
_TARGET = re.compile(r"([a-z][a-z0-9_]{0,31}):([^\s:]{1,128})(?::([^\s:]{1,128}))?")


@dataclass(frozen=True, slots=True)
class Target:
    """A chat, or a thread of one."""

    platform: str
    chat_id: str
    thread_id: str = ""

    def __str__(self) -> str:
        return ":".join(filter(None, (self.platform, self.chat_id, self.thread_id)))

    @classmethod
    def parse(cls, text: str) -> "Target | None":
        """The target that `platform:chat[:thread]` names; None for any other text."""
        found = _TARGET.fullmatch(text.strip())
        return None if found is None else cls(found[1], found[2], found[3] or "")

    @classmethod
    def of_origin(cls, origin: Mapping[str, str]) -> "Target | None":
        """Where a turn's message came from; None where that is no chat."""
        if not origin.get("platform") or not origin.get("chat_id"):
            return None
        return cls(origin["platform"], origin["chat_id"], origin.get("thread_id", ""))


class NotSent(Exception):
    """The message was not taken; the message of the error says why."""


class SendingUnknown(Exception):
    """It is not known whether the message was taken."""


class Messenger(Protocol):
    """Takes messages and sends each once."""

    async def send(self, key: str, profile: str, target: Target, text: str) -> None:
        """Have a message sent; the same key again sends nothing more. NotSent, SendingUnknown."""
        ...
