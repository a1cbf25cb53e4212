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
_PICTURE = re.compile(r"`[^`\n]+`|!\[([^\]\n]*)\]\((?:sandbox:|file://)?([^()\s]+)\)")
_FENCES = ("```", "~~~")


class Target(Struct, frozen=True):
    """A chat or a thread."""

    platform: str
    chat_id: str
    thread_id: str = ""

    def __str__(self) -> str:
        return ":".join(filter(None, (self.platform, self.chat_id, self.thread_id)))

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
    caption: str = ""

    @classmethod
    def from_bytes(cls, path: str, data: bytes, caption: str = "") -> "MediaFile":
        plain = (each if each.isprintable() else "_" for each in PurePosixPath(path).name)
        return cls("".join(plain), data, hashlib.sha256(data).digest(), caption)

    def __str__(self) -> str:
        return f"{self.name} ({len(self.data):,} bytes)"


class Message(Struct, frozen=True):
    """A message to the chats of a target."""

    key: str
    """Identifies the message in retries."""
    profile: str
    origin: Target | None
    text: str
    """Markdown; may be empty only with files."""
    files: Sequence[MediaFile] = ()
    target: str = ORIGIN
    """The chats, as the gateway resolves them, such as `origin`, `telegram` or `telegram:#family`.
    """

    @property
    def where(self) -> str:
        """Return where it goes, as people are told."""
        return f"{self.origin}" if self.target == ORIGIN else self.target


class KnownChat(Struct, frozen=True):
    """A chat that a message can be sent to."""

    target: str
    name: str = ""
    chat_type: str = ""
    is_home: bool = False

    def __str__(self) -> str:
        about = (self.name, self.chat_type, "home channel" if self.is_home else "")
        text = ", ".join(filter(None, about))
        return f"{self.target} ({text})" if text else self.target


class Media(Struct, frozen=True):
    """A file that a message names."""

    path: str
    """In the sandbox, or a URL."""
    caption: str = ""

    @property
    def is_url(self) -> bool:
        return "://" in self.path

    @property
    def name(self) -> str:
        return PurePosixPath(self.path.partition("?")[0]).name or self.path


def split_media(message: str, *, urls: bool = False) -> tuple[str, Sequence[Media]]:
    """Split off a message's `MEDIA:` lines and Markdown pictures, except in code.

    Pictures of the web are split off with `urls`; else they stay in the text.
    """
    text: list[str] = []
    media: list[Media] = []
    fence = ""
    for line in message.splitlines():
        mark = line.strip()[:3]
        if mark in _FENCES:
            fence = "" if mark == fence else fence or mark
        if fence:
            text.append(line)
        elif found := _MEDIA.fullmatch(line):
            media.append(Media(found[1]))
        else:
            rest, pictures = _split_pictures(line, urls=urls)
            media += pictures
            if rest.strip() or not pictures:
                text.append(rest)
    return "\n".join(text).strip() if media else message, media


def _split_pictures(line: str, *, urls: bool) -> tuple[str, Sequence[Media]]:
    pictures: list[Media] = []
    rest, end = "", 0
    for found in _PICTURE.finditer(line):
        picture = Media(found[2] or "", (found[1] or "").strip())
        is_wanted = urls if picture.is_url else not picture.path.startswith("data:")
        if picture.path and is_wanted:
            pictures.append(picture)
            rest, end = rest + line[end : found.start()], found.end()
    return rest + line[end:], pictures


class NotSent(Exception):
    """The message was not accepted; the error says why."""


class SendingUnknown(Exception):
    """It is not known whether the message was accepted."""


class Messenger(Protocol):
    """Sends each message once; all methods may raise NotSent or SendingUnknown."""

    async def chats(self, profile: str) -> Sequence[KnownChat]:
        """Return the chats that are known, the last used first."""
        ...

    async def resolve(self, message: Message) -> Sequence[str]:
        """Return the chats that a message would go to; NotSent says why there are none."""
        ...

    async def has(self, key: str, profile: str) -> bool: ...

    async def send(self, message: Message) -> Sequence[str]:
        """Send a message, once per key; return the names of files that its chat cannot show."""
        ...
