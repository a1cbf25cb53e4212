"""Slash commands: what a person can say to Hermes itself, on every platform."""

import hashlib
import re
from collections.abc import Awaitable, Callable

from msgspec import Struct

from gateway_service.clients import AgentClient
from gateway_service.events import Decision
from gateway_service.messages import COMPRESS, RETRY, STEER, turn_command
from gateway_service.storage import inbox
from services.clock import Clock
from services.database import Database
from services.errors import HermesError
from services.ids import new_session_id

# Telegram names the bot as well in a group: /stop@my_bot. A path such as /etc/hosts is no command.
_COMMAND = re.compile(r"/([A-Za-z][\w-]*)(?:@\w+)?(?:\s+(.*))?", re.DOTALL)

GREETING = (
    "Hello, I am Hermes. Tell me in your own words what you would like to have done: I run "
    "commands and write files in a sandbox of my own, and do things at set times. "
    "I also know these commands:"
)


QUOTE_CHARS = 120


class Chat(Struct, frozen=True):
    """Where a command was typed, and by whom."""

    profile: str
    session_id: str
    user: str
    event_id: str
    """Of the event that typed it, the same however often it is obeyed."""
    in_terminal: bool = False


class Answer(Struct, frozen=True):
    """What a command has to say, in Markdown."""

    text: str
    session_id: str = ""
    """The session that messages go to from now on; empty means the same as before."""
    is_error: bool = False


class Tools(Struct, frozen=True):
    """What commands work with."""

    database: Database
    agent: AgentClient
    clock: Clock


class Command(Struct, frozen=True):
    """One slash command."""

    name: str
    help: str
    run: Callable[[Tools, Chat, str], Awaitable[Answer]]
    arguments: str = ""


def parse(text: str) -> tuple[str, str] | None:
    """The name of the command that a text is, and its arguments; None for what has a turn."""
    if turn_command(text):
        return None
    found = _COMMAND.fullmatch(text.strip())
    return (found[1].lower(), (found[2] or "").strip()) if found else None


async def run(tools: Tools, chat: Chat, name: str, arguments: str) -> Answer:
    """Obey a command; whatever goes wrong is the answer."""
    command = next((each for each in COMMANDS if each.name == name), None)
    if command is None:
        return Answer(f"There is no command /{name}. /help lists them all.", is_error=True)
    try:
        return await command.run(tools, chat, arguments)
    except HermesError as error:
        return Answer(error.message, is_error=True)


async def _new(tools: Tools, _chat: Chat, _arguments: str) -> Answer:
    session_id = new_session_id(tools.clock.now().astimezone())
    return Answer("A new session begins with your next message.", session_id)


async def _stop(tools: Tools, chat: Chat, _arguments: str) -> Answer:
    stopped = await tools.agent.interrupt(chat.session_id, chat.profile)
    return Answer("Stopping." if stopped else "Nothing is running.")


async def _approve(tools: Tools, chat: Chat, arguments: str) -> Answer:
    if arguments not in ("", "session", "always"):
        return Answer("Say /approve, /approve session or /approve always.", is_error=True)
    decision = Decision(arguments or "once")
    return await _decide(tools, chat, decision, "Allowed")


async def _deny(tools: Tools, chat: Chat, _arguments: str) -> Answer:
    return await _decide(tools, chat, Decision.DENY, "Denied")


async def _decide(tools: Tools, chat: Chat, decision: Decision, done: str) -> Answer:
    """Decide what has waited longest."""
    waiting = await tools.agent.open_approvals(chat.session_id, chat.profile)
    if not waiting:
        return Answer("Nothing waits for a decision.", is_error=True)
    first = waiting[0]
    await tools.agent.decide(first.approval_id, chat.profile, decision, chat.user)
    more = f" {len(waiting) - 1} more to decide." if len(waiting) > 1 else ""
    return Answer(f"{done}: {first.tool} `{first.subject}`.{more}")


async def _status(tools: Tools, chat: Chat, _arguments: str) -> Answer:
    session = await tools.agent.session(chat.session_id, chat.profile)
    if session is None:
        return Answer(f"Session `{chat.session_id}` has no messages yet.")
    tokens = session.prompt_tokens + session.completion_tokens
    facts = f"{session.message_count} messages, {tokens} tokens"
    doing = await _doing(tools, chat)
    return Answer(f"Session `{session.session_id}` “{session.title}”: {facts}. {doing}")


async def _doing(tools: Tools, chat: Chat) -> str:
    turns = await tools.database.read(
        lambda conn: inbox.live_turns(conn, chat.profile, chat.session_id)
    )
    if not turns:
        return "Idle."
    waiting = len(await tools.agent.open_approvals(chat.session_id, chat.profile))
    if waiting:
        return f"Waiting for your decision on {waiting}: /approve or /deny."
    queued = f", {len(turns) - 1} waiting" if len(turns) > 1 else ""
    return f"Working on your message{queued}; /stop ends it."


async def _undo(tools: Tools, chat: Chat, arguments: str) -> Answer:
    if not re.fullmatch(r"|[1-9]\d{0,2}", arguments):
        return Answer("Say /undo, or /undo 3 for the last three.", is_error=True)
    # An event that is obeyed a second time, after a crash, takes nothing more back.
    undo_id = f"und_{hashlib.blake2s(chat.event_id.encode()).hexdigest()}"
    undone = await tools.agent.undo(chat.session_id, chat.profile, int(arguments or 1), undo_id)
    if not undone.turn_count:
        return Answer("There is nothing to take back.", is_error=True)
    said = _quoted(undone.user_text)
    more = f" and {undone.turn_count - 1} more" if undone.turn_count > 1 else ""
    return Answer(
        f"Taken back: {said}{more}. {undone.messages_left} messages are left; "
        "what was done stays done."
    )


def _quoted(text: str) -> str:
    line = " ".join(text.replace("`", "'").split())
    return f"`{line[: QUOTE_CHARS - 1]}…`" if len(line) > QUOTE_CHARS else f"`{line or '…'}`"


async def _personality(tools: Tools, chat: Chat, arguments: str) -> Answer:
    name = arguments.lower()
    if not name:
        names, current = await tools.agent.personalities(chat.session_id, chat.profile)
        listed = ", ".join(f"`{each}`" for each in names)
        return Answer(
            f"This session has {f'the personality `{current}`' if current else 'none'}. There are "
            f"{listed}; /personality none takes it away."
        )
    wanted = "" if name == "none" else name
    platform = chat.user.partition(":")[0]
    await tools.agent.set_personality(chat.session_id, chat.profile, wanted, platform)
    what = f"with the personality `{wanted}`" if wanted else "without a personality"
    # A chat that had no session goes on with the one that was given its personality.
    return Answer(f"From the next message on I talk {what}.", chat.session_id)


async def _retry(_tools: Tools, _chat: Chat, _arguments: str) -> Answer:
    return Answer("Say /retry, and nothing behind it.", is_error=True)


async def _compress(_tools: Tools, _chat: Chat, _arguments: str) -> Answer:
    return Answer("Say /compress, and nothing behind it.", is_error=True)


async def _steer(_tools: Tools, _chat: Chat, _arguments: str) -> Answer:
    return Answer("Say what: /steer leave the tests alone", is_error=True)


async def _start(_tools: Tools, chat: Chat, _arguments: str) -> Answer:
    return Answer(f"{GREETING}\n\n{_listed(chat)}")


async def _help(_tools: Tools, chat: Chat, _arguments: str) -> Answer:
    return Answer(_listed(chat))


def _listed(chat: Chat) -> str:
    lines = [
        f"- `/{command.name}{' ' + command.arguments if command.arguments else ''}` {command.help}"
        for command in COMMANDS
    ]
    # The terminal obeys this one itself.
    return "\n".join([*lines, "- `/quit` leave"] if chat.in_terminal else lines)


COMMANDS: tuple[Command, ...] = (
    Command("new", "begin a new session", _new),
    Command("stop", "stop what is running", _stop),
    Command("approve", "allow what is asked, now or for longer", _approve, "[session|always]"),
    Command("deny", "refuse what is asked", _deny),
    Command("status", "show the session and what it is doing", _status),
    Command(STEER, "tell the work in progress something, without stopping it", _steer, "TEXT"),
    Command(RETRY, "take the last answer back, and answer again", _retry),
    Command("undo", "take back the last exchange, or the last N", _undo, "[N]"),
    Command("personality", "choose how Hermes talks, or list the ways", _personality, "[NAME]"),
    Command(COMPRESS, "condense this conversation", _compress),
    Command("help", "list the commands", _help),
    Command("start", "say what Hermes can do", _start),
)
"""All there are."""
