"""Messages to chats besides the answer: their targets, and the interface to their sender."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Protocol

from msgspec import Struct

from agent_service.records.requests import REVIEW
from services.config.redacted_repr import RedactedRepr

ORIGIN = "origin"
TERMINAL = "cli"
NO_CHATS = (TERMINAL, "scheduler", REVIEW)
"""Origins that cannot receive messages, except for files in a terminal."""
_MEDIA = re.compile(r"\s*MEDIA:\s*(\S(?:.*\S)?)\s*")
_FENCES = ("```", "~~~")
_TARGET = re.compile(r"([a-z][a-z0-9_]{0,31}):([^\s:]{1,128})(?::([^\s:]{1,128}))?")


class Target(Struct, frozen=True):
    """A chat or a thread."""

    platform: str
    chat_id: str
    thread_id: str = ""

    def __str__(self) -> str:
        return ":".join(filter(None, (self.platform, self.chat_id, self.thread_id)))

    @classmethod
    def parse(cls, text: str) -> "Target | None":
        """Parse `platform:chat[:thread]`; None for any other text."""
        found = _TARGET.fullmatch(text.strip())
        return None if found is None else cls(found[1], found[2], found[3] or "")

    @classmethod
    def of_origin(cls, origin: Mapping[str, str]) -> "Target | None":
        """Return where a turn's message came from; None if that is not a chat."""
        if not origin.get("platform") or not origin.get("chat_id"):
            return None
        return cls(origin["platform"], origin["chat_id"], origin.get("thread_id", ""))


class MediaFile(RedactedRepr, frozen=True):
    """A file of a message."""

    unshown = ("data",)

    name: str
    """The display name, in which nothing can mislead."""
    data: bytes
    sha256: bytes

    @classmethod
    def from_bytes(cls, path: str, data: bytes) -> "MediaFile":
        plain = (each if each.isprintable() else "_" for each in PurePosixPath(path).name)
        return cls("".join(plain), data, hashlib.sha256(data).digest())

    def __str__(self) -> str:
        return f"{self.name} ({len(self.data):,} bytes)"


class Message(Struct, frozen=True):
    """A message to a chat."""

    key: str
    """Identifies the message in retries."""
    profile: str
    target: Target
    text: str
    """Markdown; may be empty only with files."""
    files: Sequence[MediaFile] = ()


def split_media(message: str) -> tuple[str, Sequence[str]]:
    """Split off the paths of a message's `MEDIA:` lines, except in code blocks."""
    text: list[str] = []
    paths: list[str] = []
    fence = ""
    for line in message.splitlines():
        mark = line.strip()[:3]
        if mark in _FENCES:
            fence = "" if mark == fence else fence or mark
        found = None if fence else _MEDIA.fullmatch(line)
        if found is None:
            text.append(line)
        else:
            paths.append(found[1])
    return "\n".join(text).strip() if paths else message, paths


class NotSent(Exception):
    """The message was not accepted; the error says why."""


class SendingUnknown(Exception):
    """It is not known whether the message was accepted."""


class Messenger(Protocol):
    """Sends each message once; both methods may raise NotSent or SendingUnknown."""

    async def has(self, key: str, profile: str) -> bool: ...

    async def send(self, message: Message) -> Sequence[str]:
        """Send a message, once per key; return the names of files that its chat cannot show."""
        ...
