"""Commands about the session: its state and cost, and undoing turns."""

import re
from functools import partial

from gateway_service.chats.access import Who
from gateway_service.chats.resets import RESUME, request_review
from gateway_service.clients import call_agent
from gateway_service.commands.base import (
    NOT_IN_GROUPS,
    Answer,
    Chat,
    Command,
    CommandContext,
    Group,
    Verb,
    code,
    format_time,
    render_list,
    shorten,
    simple_command,
    usage_error,
    wrong,
)
from gateway_service.messages import COMPRESS, QUEUE, RETRY, STEER, BusyMode
from gateway_service.storage import chats, inbox
from hermes.agent.v1 import catalog_pb2, session_change_pb2, session_pb2, usage_pb2
from hermes.common.v1.usage_pb2 import Usage
from services.amounts import dollars, plural
from services.ids import new_session_id

SHOWN = 10
TITLE_CHARS = 60
NOTHING_SAID = "There is nothing to take back."
_BUSY = {
    BusyMode.INTERRUPT: "stops the work, and I answer it next",
    BusyMode.QUEUE: "waits until the work has ended",
    BusyMode.STEER: "joins the work, with its next results",
}
_SCOPES = {
    usage_pb2.BUDGET_SCOPE_PROFILE: "in total",
    usage_pb2.BUDGET_SCOPE_SESSION: "for this session",
    usage_pb2.BUDGET_SCOPE_DAY: "for today",
}


async def _new(context: CommandContext, chat: Chat, _arguments: str) -> Answer:
    if context.config.session_reset.review_on_new:
        platform = chat.source.platform
        review = (chat.effect_id("trn"), chat.session_id, chat.profile, platform)
        await request_review(context.agent, *review)
    await context.agent.end_session(chat.session_id, chat.profile)
    session_id = new_session_id(context.clock.now().astimezone())
    context.hooks.notify_reset(chat.source, chat.key, chat.session_id, session_id, "command")
    return Answer("A new session begins with your next message.", session_id)


async def _stop(context: CommandContext, chat: Chat, _arguments: str) -> Answer:
    stopped = await context.agent.interrupt(chat.session_id, chat.profile)
    return Answer("Stopping." if stopped else "Nothing is running.")


async def _status(context: CommandContext, chat: Chat, _arguments: str) -> Answer:
    found = await context.agent.session(chat.session_id, chat.profile)
    if found is None:
        return Answer(f"Session `{chat.session_id}` has no messages yet.")
    session = found.session
    tokens = session.usage.prompt_tokens + session.usage.completion_tokens
    facts = f"{plural(session.message_count, 'message')}, {plural(tokens, 'token')}"
    doing = await _doing(context, chat)
    return Answer(f"Session `{session.session_id}` “{session.title}”: {facts}. {doing}")


async def _doing(context: CommandContext, chat: Chat) -> str:
    turns = await context.database.read(
        lambda conn: inbox.live_turns(conn, chat.profile, chat.session_id)
    )
    if not turns:
        return "Idle."
    waiting = len(await context.agent.open_approvals(chat.session_id, chat.profile))
    if waiting:
        return f"Waiting for your decision on {plural(waiting, 'call')}: /approve or /deny."
    queued = f", {len(turns) - 1} waiting" if len(turns) > 1 else ""
    return f"Working on your message{queued}. /stop stops it."


async def _undo(context: CommandContext, chat: Chat, arguments: str) -> Answer:
    if not re.fullmatch(r"|[1-9]\d{0,2}", arguments):
        return wrong("Use /undo, or /undo 3 for the last three exchanges.")
    if await context.agent.session(chat.session_id, chat.profile) is None:
        return wrong(NOTHING_SAID)
    request = session_change_pb2.UndoTurnsRequest(
        session_id=chat.session_id,
        profile=chat.profile,
        turn_count=int(arguments or 1),
        undo_id=chat.effect_id("und"),
    )
    undone = await call_agent(context.agent.sessions.UndoTurns(request))
    if not undone.turn_count:
        return wrong(NOTHING_SAID)
    more = f" and {undone.turn_count - 1} more" if undone.turn_count > 1 else ""
    left = plural(undone.message_count, "message is", "messages are")
    return Answer(f"Taken back: {code(undone.user_text)}{more}. {left} left. What tools did stays.")


async def _personality(context: CommandContext, chat: Chat, arguments: str) -> Answer:
    name = arguments.lower()
    if not name:
        listing = catalog_pb2.ListPersonalitiesRequest(
            profile=chat.profile, session_id=chat.session_id
        )
        found = await call_agent(context.agent.catalog.ListPersonalities(listing))
        current = found.current_name
        all_of_them = ", ".join(f"`{each.name}`" for each in found.personalities)
        return Answer(
            f"This session has {f'the personality `{current}`' if current else 'no personality'}. "
            f"Available: {all_of_them}. /personality none removes it."
        )
    wanted = "" if name == "none" else name
    request = session_change_pb2.SetPersonalityRequest(
        session_id=chat.session_id, profile=chat.profile, name=wanted, platform=chat.source.platform
    )
    await call_agent(context.agent.sessions.SetPersonality(request))
    what = f"with the personality `{wanted}`" if wanted else "without a personality"
    # A chat without a session continues with the one that was given its personality.
    return Answer(f"From your next message on, I talk {what}.", chat.session_id)


async def _title(context: CommandContext, chat: Chat, arguments: str) -> Answer:
    found = await context.agent.session(chat.session_id, chat.profile)
    if found is None:
        return wrong("This session has no messages yet. Send a message first.")
    if not arguments:
        title = found.session.title
        return Answer(f"This session is called “{title}”. /title TEXT renames it.")
    request = session_pb2.RenameSessionRequest(
        session_id=chat.session_id, profile=chat.profile, title=arguments
    )
    title = (await call_agent(context.agent.sessions.RenameSession(request))).session.title
    return Answer(f"This session is now called “{title}”. /resume {title} returns to it.")


async def _sessions(context: CommandContext, chat: Chat, arguments: str) -> Answer:
    if not arguments:
        listing = session_pb2.ListSessionsRequest(
            profile=chat.profile, page_size=SHOWN + 1, without_jobs=True
        )
        found = await call_agent(context.agent.sessions.ListSessions(listing))
        if not found.sessions:
            return Answer("There are no sessions yet.")
        hint = "/sessions WORDS finds older ones"
        lines = [_line(each, chat) for each in found.sessions]
        return Answer(f"{render_list(lines, hint, SHOWN)}\n\n/resume ID or TITLE continues one.")
    request = session_pb2.SearchMessagesRequest(
        profile=chat.profile, query=arguments, page_size=SHOWN + 1
    )
    hits = (await call_agent(context.agent.sessions.SearchMessages(request))).hits
    if not hits:
        return Answer(f"No message contains these words: {code(arguments)}")
    lines = [
        f"`{hit.session_id}` {shorten(hit.title, TITLE_CHARS)}, {format_time(hit.create_time)}: "
        f"{code(hit.excerpt)}"
        for hit in hits
    ]
    return Answer(render_list(lines, "use more words to narrow the search", SHOWN))


async def _resume(context: CommandContext, chat: Chat, arguments: str) -> Answer:
    if not arguments:
        return await _sessions(context, chat, "")
    named = re.sub(r"^[`“\"]|[`”\"]$", "", arguments)
    by_id = await context.agent.session(named, chat.profile)
    found = by_id.session if by_id else None
    found = found or await context.agent.latest_session(chat.profile, title=named)
    if found is None:
        return wrong(f"There is no session {code(named)}; /sessions lists them.")
    if found.session_id == chat.session_id:
        return Answer("This chat is already in that session.")
    return Answer(
        f"This chat continues with “{shorten(found.title, TITLE_CHARS)}” "
        f"(`{found.session_id}`, {plural(found.message_count, 'message')}).",
        found.session_id,
    )


def _line(session: session_pb2.Session, chat: Chat) -> str:
    here = " (this one)" if session.session_id == chat.session_id else ""
    return (
        f"`{session.session_id}` {shorten(session.title, TITLE_CHARS)}{here}, "
        f"{session.platform}, {format_time(session.update_time)}"
    )


_retry = usage_error("/retry takes no arguments.")
_compress = usage_error("/compress takes no arguments.")
_steer = usage_error("Add a text, such as: /steer leave the tests alone")


async def _show_busy(context: CommandContext, chat: Chat, _arguments: str) -> Answer:
    chosen = await context.database.read(lambda conn: chats.busy_mode(conn, chat.profile, chat.key))
    mode = chosen or context.config.busy.mode_for(chat.source.platform)
    how = "chosen for this chat" if chosen else "configured"
    others = ", ".join(f"/busy {each.value}" for each in BusyMode if each is not mode)
    back = ". /busy default returns to the configured mode" if chosen else ""
    return Answer(
        f"`{mode.value}` ({how}): a message that you send while I work {_BUSY[mode]}. "
        f"To change this: {others}{back}."
    )


async def _choose_busy(
    mode: BusyMode | None, context: CommandContext, chat: Chat, arguments: str
) -> Answer:
    if arguments:
        return wrong("Use /busy with one word: interrupt, queue, steer or default.")
    now = context.clock.now()
    where = (chat.profile, chat.key, chat.session_id)
    await context.database.write(lambda conn: chats.choose_busy_mode(conn, *where, mode, now))
    chosen = mode or context.config.busy.mode_for(chat.source.platform)
    return Answer(f"From now on, a message that you send while I work {_BUSY[chosen]}.")


_queue = usage_error("Add a text, such as: /queue then run the tests")


def _busy_verb(name: str, help_: str, mode: BusyMode | None) -> Verb:
    return Verb(name, help_, partial(_choose_busy, mode), changes=True)


async def _usage(context: CommandContext, chat: Chat, _arguments: str) -> Answer:
    profile, session_id, stub = chat.profile, chat.session_id, context.agent.usage
    of_session = usage_pb2.GetUsageRequest(profile=profile, session_id=session_id, page_size=1)
    lines = [
        f"**This session**: {_render_usage((await call_agent(stub.GetUsage(of_session))).total)}"
    ]
    by_day = usage_pb2.GetUsageRequest(
        profile=profile, group_by=usage_pb2.USAGE_GROUP_DAY, page_size=1
    )
    # Days are in the agent's zone, which may differ, so the latest one is named.
    days = (await call_agent(stub.GetUsage(by_day))).sums
    lines += [f"**{day.key}, all sessions**: {_render_usage(day.usage)}" for day in days]
    budgets = usage_pb2.GetBudgetRequest(profile=profile, session_id=session_id)
    for budget in (await call_agent(stub.GetBudget(budgets))).budgets:
        is_here = budget.scope in _SCOPES and budget.scope_id in ("", session_id)
        if is_here and (left := _render_budget(budget)):
            lines.append(f"**Budget {_SCOPES[budget.scope]}**: {left}")
    return Answer("\n".join(f"- {line}" for line in lines))


def _render_usage(used: Usage) -> str:
    if not used.call_count:
        return "nothing yet"
    cached = f" ({used.cached_tokens:,} cached)" if used.cached_tokens else ""
    return (
        f"{dollars(used.cost_micro_usd)}, {plural(used.call_count, 'call')}, "
        f"{used.prompt_tokens:,} tokens sent{cached}, {used.completion_tokens:,} received"
    )


def _render_budget(budget: usage_pb2.Budget) -> str:
    parts: list[str] = []
    if budget.limit.micro_usd:
        percent = budget.spent.micro_usd * 100 // budget.limit.micro_usd
        spent, limit = dollars(budget.spent.micro_usd), dollars(budget.limit.micro_usd)
        parts.append(f"{spent} of {limit} ({percent} %)")
    if budget.limit.tokens:
        percent = budget.spent.tokens * 100 // budget.limit.tokens
        parts.append(f"{budget.spent.tokens:,} of {budget.limit.tokens:,} tokens ({percent} %)")
    return ", ".join(parts)


# They include other people's sessions.
_SESSIONS = Verb(
    "", "list the latest sessions, or search all messages", _sessions, "[WORDS]", Who.ADMINS
)
_RESUME = Verb("", "continue another session", _resume, "[ID|TITLE]", who=Who.ADMINS, changes=True)

COMMANDS: tuple[Command, ...] = (
    simple_command("new", Group.CHAT, Verb("", "begin a new session", _new, changes=True)),
    Command(
        "reset",
        Group.CHAT,
        "the same as /new",
        (Verb("", "the same as /new", _new, changes=True),),
        "/reset",
        alias_of="new",
    ),
    simple_command("stop", Group.CHAT, Verb("", "stop the work in progress", _stop, changes=True)),
    simple_command(
        "status", Group.CHAT, Verb("", "show the session, and what Hermes is doing", _status)
    ),
    simple_command(
        STEER,
        Group.CHAT,
        Verb("", "add a message to the work in progress, without stopping it", _steer, "TEXT"),
        "/steer leave the tests alone",
    ),
    simple_command(
        RETRY,
        Group.CHAT,
        Verb("", "take back the last answer, and answer again", _retry, changes=True),
    ),
    simple_command(
        "undo",
        Group.CHAT,
        Verb("", "take back the last exchange, or the last N", _undo, "[N]", changes=True),
        "/undo 3",
    ),
    simple_command(
        COMPRESS, Group.CHAT, Verb("", "compress this conversation", _compress, changes=True)
    ),
    simple_command(
        "personality",
        Group.CHAT,
        Verb("", "choose a personality, or list them", _personality, "[NAME]", changes=True),
        "/personality brief",
    ),
    simple_command(
        "title",
        Group.CHAT,
        Verb("", "show or change the session's title", _title, "[TEXT]", changes=True),
        "/title Holiday plans",
    ),
    simple_command(RESUME, Group.CHAT, _RESUME, "/resume Holiday plans", NOT_IN_GROUPS),
    simple_command("sessions", Group.CHAT, _SESSIONS, "/sessions train tickets", NOT_IN_GROUPS),
    simple_command(
        QUEUE,
        Group.CHAT,
        Verb("", "send a message that waits until the work in progress has ended", _queue, "TEXT"),
        "/queue then run the tests",
    ),
    Command(
        "busy",
        Group.CHAT,
        "show or choose what happens to messages that you send while Hermes works",
        (
            Verb("show", "show what happens to messages that you send meanwhile", _show_busy),
            _busy_verb("interrupt", "they stop the work, and are next", BusyMode.INTERRUPT),
            _busy_verb("queue", "they wait until the work has ended", BusyMode.QUEUE),
            _busy_verb("steer", "they join the work, with its next results", BusyMode.STEER),
            _busy_verb("default", "return to the configured mode", None),
        ),
        "/busy queue",
    ),
    simple_command(
        "usage", Group.CHAT, Verb("", "show tokens and cost of this session and today", _usage)
    ),
)
