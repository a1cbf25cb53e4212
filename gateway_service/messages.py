"""What comes in and goes out, whatever the platform."""

import re
from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct

from services.config.redacted_repr import RedactedRepr
from services.home.project_notes import NotesAbove

CLI = "cli"
"""The platform of clients that are connected to the gateway itself."""


class Source(Struct, frozen=True, omit_defaults=True):
    """Where a message comes from, and where its answer goes."""

    platform: str
    chat_id: str
    thread_id: str = ""
    user_id: str = ""
    user_name: str = ""
    chat_type: str = "dm"
    """dm, group, channel or thread."""
    is_shared: bool = False
    """Several people have one session here."""

    @property
    def user(self) -> str:
        """The sender, as approvals name them."""
        return f"{self.platform}:{self.user_id or self.user_name}"


class Quote(Struct, frozen=True, omit_defaults=True):
    """Words of somebody else that come with a message."""

    text: str
    author: str
    """The name of whoever has said them; empty where that is not known."""
    is_forwarded: bool
    """The sender has passed them on; else the message answers them."""


class MessageEvent(Struct, frozen=True, omit_defaults=True):
    """Somebody said something."""

    event_id: str
    """The platform's, the same however often the event comes."""
    source: Source
    text: str
    """What the sender says; empty where there was something else than text, which cannot be read
    yet, or only words of others."""
    replies_to: str = ""
    """The platform's id of the message that this one answers, where it answers a certain one."""
    quotes: tuple[Quote, ...] = ()
    traceparent: str = ""
    """Names the span in which it was received; empty where nothing is traced."""


class ButtonPress(Struct, frozen=True):
    """Somebody pressed a button of ours."""

    event_id: str
    source: Source
    press_id: str
    """What the platform wants to be told that the press has been seen."""
    data: str
    """What the button stands for."""


Event: TypeAlias = MessageEvent | ButtonPress


class Button(Struct, frozen=True):
    """Something to press under a message."""

    label: str
    data: str
    """At most 64 bytes."""


class Attachment(RedactedRepr, frozen=True):
    """A file that a message shows."""

    unshown = ("data",)

    name: str
    """As people see it."""
    length_bytes: int
    sha256: str
    data: bytes = b""
    """What is in it, once it is read to be sent; elsewhere it is empty."""


class Content(Struct, frozen=True):
    """What a message of a chat shows."""

    text: str
    """Markdown; empty only beside a file."""
    buttons: tuple[Button, ...] = ()
    attachment: Attachment | None = None


class BusyMode(StrEnum):
    """What a message does to the turn that its session is busy with."""

    INTERRUPT = "interrupt"
    """It ends, and the message is taken next."""
    QUEUE = "queue"
    """It goes on to its end first."""
    STEER = "steer"
    """It is told the message with its next results, and goes on."""


class TurnRequest(Struct, frozen=True, omit_defaults=True):
    """A turn to be started; the same for a turn's id, however often it is asked for."""

    turn_id: str
    profile: str
    session_id: str
    source: Source
    text: str
    workdir: str = ""
    """The folder of this machine that a new session works in; empty means one of its own."""
    sandbox_template: str = ""
    """What a new session's sandboxes are made from; empty is what is configured."""
    busy_mode: BusyMode = BusyMode.INTERRUPT
    skip_context_files: bool = False
    """A new session is told nothing of what its folder says to agents."""
    notes_above: NotesAbove | None = None
    """What a folder above the new session's says to them."""
    quotes: tuple[Quote, ...] = ()
    skill: str = ""
    """The path of the skill whose command the message is; empty where it is none's."""
    denied: tuple[str, ...] = ()
    """Commands that the sender may not say, and may not have done in other words."""
    traceparent: str = ""
    """Names the span in which its message was received; empty where nothing is traced."""

    @property
    def prompt(self) -> str:
        """What the agent is told."""
        if self.skill:
            _, *rest = self.text.split(maxsplit=1)
            return rest[0] if rest else f"Follow the skill {self.skill}."
        return self.command[1] or self.text

    @property
    def command(self) -> tuple[str, str]:
        """The name and the arguments of the command that it is; empty texts where it is none."""
        return turn_command(self.text) or ("", "")


COMPRESS, STEER, RETRY, QUEUE = "compress", "steer", "retry", "queue"
_TELLING = (STEER, QUEUE)
"""Those of them that have something to say; the others have not."""


def turn_command(text: str) -> tuple[str, str] | None:
    """The name and the arguments of a command that is a turn; None for any other message."""
    found = re.fullmatch(
        r"/(compress|steer|retry|queue)(?:@\w+)?(?:\s+(.+))?", text.strip(), re.DOTALL
    )
    if found is None or (found[1] in _TELLING) != bool(found[2]):
        return None
    return found[1], found[2] or ""
