"""What comes in, where it comes from, and the turn that it asks for."""

from dataclasses import dataclass
from enum import StrEnum

CLI = "cli"
"""The platform of clients that are connected to the gateway itself."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a message comes from, and where its answer goes."""

    platform: str
    chat_id: str
    thread_id: str = ""
    user_id: str = ""
    user_name: str = ""
    chat_type: str = "dm"
    """dm, group, channel or thread."""

    @property
    def user(self) -> str:
        """The sender, as approvals name them."""
        return f"{self.platform}:{self.user_id or self.user_name}"


class BusyMode(StrEnum):
    """What a message does to the turn that its session is busy with."""

    INTERRUPT = "interrupt"
    QUEUE = "queue"


@dataclass(frozen=True, slots=True)
class TurnOrder:
    """A turn to be started; the same for a turn's id, however often it is asked for."""

    turn_id: str
    profile: str
    session_id: str
    source: Source
    text: str
    workdir: str = ""
    """The folder of this machine that a new session works in; empty means one of its own."""
    busy_mode: BusyMode = BusyMode.INTERRUPT
