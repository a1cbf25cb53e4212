"""The definition of slash commands, and their context."""

import hashlib
import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, tzinfo
from enum import Flag, StrEnum, auto

from google.protobuf.timestamp_pb2 import Timestamp
from msgspec import Struct

from gateway_service.chats.access import Access, Who
from gateway_service.chats.directory import Directory
from gateway_service.chats.hooks.hooks import Hooks
from gateway_service.clients import AgentClient, SchedulerClient
from gateway_service.config import GatewayConfig
from gateway_service.messages import CLI, Source
from services.clock import Clock
from services.database import Database

_log = logging.getLogger(__name__)

QUOTE_CHARS = 120
MOST_LINES = 20


class Places(Flag):
    """Where a command may be used."""

    TERMINAL = auto()
    PRIVATE = auto()
    GROUP = auto()
    """A chat that others can read."""


NOT_IN_GROUPS = Places.TERMINAL | Places.PRIVATE
"""Where nobody else reads the answer."""
ANYWHERE = NOT_IN_GROUPS | Places.GROUP


class Group(StrEnum):
    """The topic of a command, by which help groups commands."""

    CHAT = "This chat"
    APPROVALS = "Approvals"
    KNOWLEDGE = "Memory, skills and tools"
    JOBS = "Scheduled jobs"
    HERMES = "Hermes"


class Chat(Struct, frozen=True):
    """Where a command was typed, and by whom."""

    profile: str
    session_id: str
    source: Source
    event_id: str
    """The same if the command is executed again."""
    access: Access | None = None
    """Access rules; None in a terminal, whose user may do everything."""
    key: str = ""
    """Identifies the chat, independent of its session."""

    @property
    def user(self) -> str:
        return self.source.user

    @property
    def in_terminal(self) -> bool:
        return self.source.platform == CLI

    @property
    def place(self) -> Places:
        if self.in_terminal:
            return Places.TERMINAL
        return Places.PRIVATE if self.source.chat_type == "dm" else Places.GROUP

    def effect_id(self, prefix: str, bytes_count: int = 32) -> str:
        """Return an id for what the command creates or does; the same if it is executed again."""
        digest = hashlib.blake2s(self.event_id.encode(), digest_size=bytes_count).hexdigest()
        return f"{prefix}_{digest}"


class Answer(Struct, frozen=True):
    """The answer to a command, in Markdown."""

    text: str
    session_id: str = ""
    """The session for further messages; empty means unchanged."""
    is_error: bool = False
    choices: Sequence[tuple[str, str]] = ()
    """Labels and messages; the person may send one of them next."""


class CommandContext(Struct, frozen=True):
    """What commands work with."""

    database: Database
    agent: AgentClient
    scheduler: SchedulerClient
    clock: Clock
    commands: "Sequence[Command]"
    config: GatewayConfig
    hooks: Hooks
    directory: Directory


Run = Callable[[CommandContext, Chat, str], Awaitable[Answer]]
"""Executes a command, given the text after its name."""


class Verb(Struct, frozen=True):
    """An action of a command."""

    name: str
    """The word after the command's name; empty for the default action."""
    help: str
    run: Run
    arguments: str = ""
    who: Who = Who.EVERYBODY
    changes: bool = False


class Command(Struct, frozen=True):
    """One slash command."""

    name: str
    group: Group
    help: str
    verbs: tuple[Verb, ...]
    """Actions; the first is the default."""
    example: str
    places: Places = ANYWHERE
    otherwise: str = ""
    """The action for unknown words; empty if they are an error."""
    alias_of: str = ""
    """The command that it is an alias of, whose access rules apply too."""

    def verb(self, arguments: str) -> tuple[Verb | None, str]:
        """Return the action that the arguments name, and the remaining arguments."""
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
        """Return the names of an action in access rules, its full name last."""
        called = filter(None, (self.alias_of, self.name))
        return tuple(name for each in called for name in (each, f"{each} {verb.name}".rstrip()))


def simple_command(
    name: str, group: Group, verb: Verb, example: str = "", places: Places = ANYWHERE
) -> Command:
    """Return a command with one action."""
    return Command(name, group, verb.help, (verb,), example or f"/{name}", places)


def wrong(text: str) -> Answer:
    """Return the answer to a malformed command."""
    return Answer(text, is_error=True)


def usage_error(text: str) -> Run:
    """Return an action that answers with an error."""

    async def run(_context: CommandContext, _chat: Chat, _arguments: str) -> Answer:
        return wrong(text)

    return run


def may(chat: Chat, command: Command, verb: Verb) -> bool:
    """Return whether the person may use an action of a command."""
    return chat.access is None or chat.access.may(chat.source, command.names(verb), verb.who)


def log_refusal(user: str, command: str) -> None:
    """Log who was refused which command, without its arguments."""
    about = {"audit": "command_denied", "command": command, "user": user}
    _log.warning("%s was refused the command %s", user, command, extra=about)


def list_offered(commands: Sequence[Command], chat: Chat) -> list[Command]:
    """Return the commands that have an action that the person may use in a chat."""
    return [
        command
        for command in commands
        if chat.place & command.places and any(may(chat, command, verb) for verb in command.verbs)
    ]


def may_use(commands: Sequence[Command], chat: Chat, name: str) -> bool:
    """Return whether the person may use a command in a chat."""
    return any(command.name == name for command in list_offered(commands, chat))


def denied(commands: Sequence[Command], access: Access, source: Source) -> tuple[str, ...]:
    """Return the commands that a person may not use anywhere, for the agent."""
    return tuple(
        command.names(verb)[-1]
        for command in commands
        for verb in command.verbs
        if not access.may(source, command.names(verb), verb.who)
    )


def list_denied_here(context: CommandContext, chat: Chat) -> tuple[str, ...]:
    """Return the commands that the person may not use anywhere, for turns that commands start."""
    return () if chat.access is None else denied(context.commands, chat.access, chat.source)


def format_time(time: Timestamp, zone: tzinfo | None = None) -> str:
    """Return a time for people, by default in this machine's zone."""
    if not time.seconds:
        return "never"
    shown = f"%a %d %b, %H:%M{' %Z' if zone else ''}"
    return time.ToDatetime(UTC).astimezone(zone).strftime(shown)


def shorten(text: str, chars: int = QUOTE_CHARS) -> str:
    """Return a text on one line, cut if long."""
    line = " ".join(text.split())
    return f"{line[: chars - 1]}…" if len(line) > chars else line


def code(text: str, chars: int = QUOTE_CHARS) -> str:
    """Return a shortened text as inline code, so that Markdown in it has no effect."""
    return f"`{shorten(text.replace('`', chr(39)), chars) or '…'}`"


def render_list(lines: Sequence[str], hint: str, most: int = MOST_LINES) -> str:
    """Return lines as a list; if there are more, the hint says how to see them."""
    shown = [f"- {line}" for line in lines[:most]]
    if len(lines) > most:
        shown.append(f"\n{len(lines) - most} more; {hint}")
    return "\n".join(shown)
