"""What a slash command is, and what it works with."""

import hashlib
import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, tzinfo
from enum import Flag, StrEnum, auto

from google.protobuf.timestamp_pb2 import Timestamp
from msgspec import Struct

from gateway_service.chats.access import Access, Who
from gateway_service.clients import AgentClient, SchedulerClient
from gateway_service.config import GatewayConfig
from gateway_service.messages import CLI, Source
from services.clock import Clock
from services.database import Database

_log = logging.getLogger(__name__)

QUOTE_CHARS = 120
MOST_LINES = 20


class Places(Flag):
    """Where something can be said."""

    TERMINAL = auto()
    PRIVATE = auto()
    """A chat of two on a platform."""
    GROUP = auto()
    """A chat in which others read along."""


ALONE = Places.TERMINAL | Places.PRIVATE
"""Where nobody else reads the answer."""
ANYWHERE = ALONE | Places.GROUP


class Group(StrEnum):
    """What a command is about; help shows them together."""

    CHAT = "This chat"
    DECISIONS = "Decisions"
    KNOWLEDGE = "What Hermes knows and has"
    JOBS = "At set times"
    HERMES = "Hermes"


class Chat(Struct, frozen=True):
    """Where a command was typed, and by whom."""

    profile: str
    session_id: str
    source: Source
    event_id: str
    """Of the event that typed it, the same however often it is obeyed."""
    access: Access | None = None
    """What persons may say there; None in a terminal, whose user may everything."""
    key: str = ""
    """By which what it has chosen is found, whatever session it is in."""

    @property
    def user(self) -> str:
        """Who typed it, as approvals name them."""
        return self.source.user

    @property
    def in_terminal(self) -> bool:
        """Whether it was typed into a terminal."""
        return self.source.platform == CLI

    @property
    def place(self) -> Places:
        """What kind of chat it is."""
        if self.in_terminal:
            return Places.TERMINAL
        return Places.PRIVATE if self.source.chat_type == "dm" else Places.GROUP

    def effect_id(self, prefix: str, bytes_count: int = 32) -> str:
        """The id of what the command makes or does: obeyed again, after a crash, it is the same."""
        digest = hashlib.blake2s(self.event_id.encode(), digest_size=bytes_count).hexdigest()
        return f"{prefix}_{digest}"


class Answer(Struct, frozen=True):
    """What a command has to say, in Markdown."""

    text: str
    session_id: str = ""
    """The session that messages go to from now on; empty means the same as before."""
    is_error: bool = False


class CommandContext(Struct, frozen=True):
    """What commands work with."""

    database: Database
    agent: AgentClient
    scheduler: SchedulerClient
    clock: Clock
    commands: "Sequence[Command]"
    """All there are."""
    config: GatewayConfig


Run = Callable[[CommandContext, Chat, str], Awaitable[Answer]]
"""What obeys a command, given what was typed behind its name."""


class Verb(Struct, frozen=True):
    """One thing that a command does."""

    name: str
    """The word behind the command's name; empty for what it does without one."""
    help: str
    run: Run
    arguments: str = ""
    who: Who = Who.EVERYBODY
    changes: bool = False
    """Whether anything is another than before when it is done."""


class Command(Struct, frozen=True):
    """One slash command."""

    name: str
    group: Group
    help: str
    verbs: tuple[Verb, ...]
    """What it does; the first is meant where nothing stands behind the name."""
    example: str
    places: Places = ANYWHERE
    otherwise: str = ""
    """What is meant by words that say nothing else; empty where they are a mistake."""
    alias_of: str = ""
    """The command that it is another name of: what rights say of that one holds for it as well."""

    def verb(self, arguments: str) -> tuple[Verb | None, str]:
        """What is meant by what stands behind the name, and what stands behind that."""
        found = re.match(r"\S*", arguments)
        word = found[0].lower() if found else ""
        for verb in self.verbs:
            if verb.name and verb.name == word:
                return verb, arguments[len(word) :].strip()
        if not arguments or len(self.verbs) == 1:
            return self.verbs[0], arguments
        meant = (verb for verb in self.verbs if verb.name and verb.name == self.otherwise)
        return next(meant, None), arguments

    def names(self, verb: Verb) -> tuple[str, ...]:
        """What rights may call one thing that it does, its own whole name last."""
        called = filter(None, (self.alias_of, self.name))
        return tuple(name for each in called for name in (each, f"{each} {verb.name}".rstrip()))


def simple_command(
    name: str, group: Group, verb: Verb, example: str = "", places: Places = ANYWHERE
) -> Command:
    """A command that does one thing."""
    return Command(name, group, verb.help, (verb,), example or f"/{name}", places)


def wrong(text: str) -> Answer:
    """What a command says that could not be obeyed."""
    return Answer(text, is_error=True)


def usage_error(text: str) -> Run:
    """What a command does that was typed as none that could be obeyed."""

    async def run(_context: CommandContext, _chat: Chat, _arguments: str) -> Answer:
        return wrong(text)

    return run


def may(chat: Chat, command: Command, verb: Verb) -> bool:
    """Whether whoever types may say one thing of a command."""
    return chat.access is None or chat.access.may(chat.source, command.names(verb), verb.who)


def log_refusal(user: str, command: str) -> None:
    """Leave a trace of who was not let say what; not of what was typed behind it."""
    about = {"audit": "command_denied", "command": command, "user": user}
    _log.warning("%s was refused the command %s", user, command, extra=about)


def list_offered(commands: Sequence[Command], chat: Chat) -> list[Command]:
    """The commands of which whoever types may say something in a chat."""
    return [
        command
        for command in commands
        if chat.place & command.places and any(may(chat, command, verb) for verb in command.verbs)
    ]


def may_say(commands: Sequence[Command], chat: Chat, name: str) -> bool:
    """Whether whoever types may say a command in a chat."""
    return any(command.name == name for command in list_offered(commands, chat))


def denied(commands: Sequence[Command], access: Access, source: Source) -> tuple[str, ...]:
    """What somebody may not say anywhere, as the agent is told with each of their messages."""
    return tuple(
        command.names(verb)[-1]
        for command in commands
        for verb in command.verbs
        if not access.may(source, command.names(verb), verb.who)
    )


def list_denied_here(context: CommandContext, chat: Chat) -> tuple[str, ...]:
    """What whoever types may not say anywhere; nor is it done in what comes of their command."""
    return () if chat.access is None else denied(context.commands, chat.access, chat.source)


def format_time(time: Timestamp, zone: tzinfo | None = None) -> str:
    """A time as people read it, in the zone of this machine unless another is named."""
    if not time.seconds:
        return "never"
    shown = f"%a %d %b, %H:%M{' %Z' if zone else ''}"
    return time.ToDatetime(UTC).astimezone(zone).strftime(shown)


def shorten(text: str, chars: int = QUOTE_CHARS) -> str:
    """A text on one line, cut where it is long."""
    line = " ".join(text.split())
    return f"{line[: chars - 1]}…" if len(line) > chars else line


def code(text: str, chars: int = QUOTE_CHARS) -> str:
    """The same as it is, whatever Markdown would make of it."""
    return f"`{shorten(text.replace('`', chr(39)), chars) or '…'}`"


def render_list(lines: Sequence[str], hint: str, most: int = MOST_LINES) -> str:
    """Lines as a list; where there are more, the hint says how to see them."""
    shown = [f"- {line}" for line in lines[:most]]
    if len(lines) > most:
        shown.append(f"\n{len(lines) - most} more; {hint}")
    return "\n".join(shown)
