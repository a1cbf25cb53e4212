"""Commands about the conversation: which one it is, what it does, and what is taken back."""

import re

from gateway_service.authorization import Who
from gateway_service.clients.sessions import SessionLine
from gateway_service.commands.base import (
    ALONE,
    Answer,
    Chat,
    Command,
    Group,
    Tools,
    Verb,
    plain,
    wrong,
)
from gateway_service.commands.texts import code, counted, listed, moment, shortened
from gateway_service.messages import COMPRESS, RETRY, STEER
from gateway_service.resets import RESUME, LookBack, ask_to_look_back
from gateway_service.storage import inbox
from services.ids import new_session_id

SHOWN = 10
TITLE_CHARS = 60
NOTHING_SAID = "There is nothing to take back."


async def _new(tools: Tools, chat: Chat, _arguments: str) -> Answer:
    if tools.resets.reviews_on_new:
        asked = LookBack(chat.effect_id("trn"), chat.profile, chat.session_id, chat.source.platform)
        await ask_to_look_back(tools.agent, asked)
    session_id = new_session_id(tools.clock.now().astimezone())
    return Answer("A new session begins with your next message.", session_id)


async def _stop(tools: Tools, chat: Chat, _arguments: str) -> Answer:
    stopped = await tools.agent.interrupt(chat.session_id, chat.profile)
    return Answer("Stopping." if stopped else "Nothing is running.")


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
        return wrong("Say /undo, or /undo 3 for the last three.")
    if await tools.clients.sessions.get(chat.session_id, chat.profile) is None:
        return wrong(NOTHING_SAID)
    undo_id = chat.effect_id("und")
    undone = await tools.agent.undo(chat.session_id, chat.profile, int(arguments or 1), undo_id)
    if not undone.turn_count:
        return wrong(NOTHING_SAID)
    more = f" and {undone.turn_count - 1} more" if undone.turn_count > 1 else ""
    return Answer(
        f"Taken back: {code(undone.user_text)}{more}. {undone.messages_left} messages are left; "
        "what was done stays done."
    )


async def _personality(tools: Tools, chat: Chat, arguments: str) -> Answer:
    name = arguments.lower()
    if not name:
        names, current = await tools.agent.personalities(chat.session_id, chat.profile)
        all_of_them = ", ".join(f"`{each}`" for each in names)
        return Answer(
            f"This session has {f'the personality `{current}`' if current else 'none'}. There are "
            f"{all_of_them}; /personality none takes it away."
        )
    wanted = "" if name == "none" else name
    platform = chat.source.platform
    await tools.agent.set_personality(chat.session_id, chat.profile, wanted, platform)
    what = f"with the personality `{wanted}`" if wanted else "without a personality"
    # A chat that had no session goes on with the one that was given its personality.
    return Answer(f"From the next message on I talk {what}.", chat.session_id)


async def _title(tools: Tools, chat: Chat, arguments: str) -> Answer:
    if await tools.clients.sessions.get(chat.session_id, chat.profile) is None:
        return wrong("This session has no messages yet; say something first.")
    if not arguments:
        session = await tools.agent.session(chat.session_id, chat.profile)
        title = session.title if session else ""
        return Answer(f"This session is called “{title}”; /title TEXT gives it another name.")
    title = await tools.clients.sessions.rename(chat.session_id, chat.profile, arguments)
    return Answer(f"This session is called “{title}” now. /resume {title} comes back to it.")


async def _sessions(tools: Tools, chat: Chat, arguments: str) -> Answer:
    if not arguments:
        found = await tools.clients.sessions.latest(chat.profile, SHOWN + 1)
        if not found:
            return Answer("There are no sessions yet.")
        hint = "older ones are found by /sessions WORDS"
        lines = [_line(each, chat) for each in found]
        return Answer(f"{listed(lines, hint, SHOWN)}\n\n/resume ID or TITLE goes on with one.")
    hits = await tools.clients.sessions.search(chat.profile, arguments, SHOWN + 1)
    if not hits:
        return Answer(f"No message has these words: {code(arguments)}")
    lines = [
        f"`{hit.session_id}` {shortened(hit.title, TITLE_CHARS)}, {moment(hit.written_at)}: "
        f"{code(hit.excerpt)}"
        for hit in hits
    ]
    return Answer(listed(lines, "more words find less", SHOWN))


async def _resume(tools: Tools, chat: Chat, arguments: str) -> Answer:
    if not arguments:
        return await _sessions(tools, chat, "")
    sessions = tools.clients.sessions
    named = re.sub(r"^[`“\"]|[`”\"]$", "", arguments)
    found = await sessions.get(named, chat.profile)
    if found is None:
        found = next(iter(await sessions.latest(chat.profile, 1, named)), None)
    if found is None:
        return wrong(f"There is no session {code(named)}; /sessions lists them.")
    if found.session_id == chat.session_id:
        return Answer("That is the session of this chat already.")
    return Answer(
        f"This chat goes on with “{shortened(found.title, TITLE_CHARS)}” "
        f"(`{found.session_id}`, {counted(found.message_count, 'message')}).",
        found.session_id,
    )


def _line(session: SessionLine, chat: Chat) -> str:
    here = " (this one)" if session.session_id == chat.session_id else ""
    return (
        f"`{session.session_id}` {shortened(session.title, TITLE_CHARS)}{here}, "
        f"{session.platform}, {moment(session.used_at)}"
    )


async def _retry(_tools: Tools, _chat: Chat, _arguments: str) -> Answer:
    return wrong("Say /retry, and nothing behind it.")


async def _compress(_tools: Tools, _chat: Chat, _arguments: str) -> Answer:
    return wrong("Say /compress, and nothing behind it.")


async def _steer(_tools: Tools, _chat: Chat, _arguments: str) -> Answer:
    return wrong("Say what: /steer leave the tests alone")


# Sessions of others are among them.
_SESSIONS = Verb(
    "", "list the sessions used last, or find what was said", _sessions, "[WORDS]", Who.ADMINS
)
_RESUME = Verb(
    "", "go on with another session", _resume, "[ID|TITLE]", who=Who.ADMINS, changes=True
)

COMMANDS: tuple[Command, ...] = (
    plain("new", Group.CHAT, Verb("", "begin a new session", _new, changes=True)),
    Command(
        "reset",
        Group.CHAT,
        "the same as /new",
        (Verb("", "the same as /new", _new, changes=True),),
        "/reset",
        alias_of="new",
    ),
    plain("stop", Group.CHAT, Verb("", "stop what is running", _stop, changes=True)),
    plain("status", Group.CHAT, Verb("", "show the session and what it is doing", _status)),
    plain(
        STEER,
        Group.CHAT,
        Verb("", "tell the work in progress something, without stopping it", _steer, "TEXT"),
        "/steer leave the tests alone",
    ),
    plain(
        RETRY,
        Group.CHAT,
        Verb("", "take the last answer back, and answer again", _retry, changes=True),
    ),
    plain(
        "undo",
        Group.CHAT,
        Verb("", "take back the last exchange, or the last N", _undo, "[N]", changes=True),
        "/undo 3",
    ),
    plain(COMPRESS, Group.CHAT, Verb("", "condense this conversation", _compress, changes=True)),
    plain(
        "personality",
        Group.CHAT,
        Verb(
            "",
            "choose how Hermes talks, or list the ways",
            _personality,
            "[NAME]",
            changes=True,
        ),
        "/personality brief",
    ),
    plain(
        "title",
        Group.CHAT,
        Verb("", "show the session's title, or give it another", _title, "[TEXT]", changes=True),
        "/title Holiday plans",
    ),
    plain(RESUME, Group.CHAT, _RESUME, "/resume Holiday plans", ALONE),
    plain("sessions", Group.CHAT, _SESSIONS, "/sessions train tickets", ALONE),
)
"""Those of this module."""
