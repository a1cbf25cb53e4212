"""Commands by which a person decides what the agent may do."""

from gateway_service.authorization import Access, Who
from gateway_service.commands.base import (
    Answer,
    Chat,
    Command,
    Group,
    Tools,
    Verb,
    plain,
    refused,
    wrong,
)
from gateway_service.events import Decision
from gateway_service.messages import Source


async def _once(tools: Tools, chat: Chat, arguments: str) -> Answer:
    if arguments:
        return wrong("Say /approve, /approve session or /approve always.")
    return await _decide(tools, chat, Decision.ONCE, "Allowed")


async def _session(tools: Tools, chat: Chat, _arguments: str) -> Answer:
    return await _decide(tools, chat, Decision.SESSION, "Allowed")


async def _always(tools: Tools, chat: Chat, _arguments: str) -> Answer:
    return await _decide(tools, chat, Decision.ALWAYS, "Allowed")


async def _deny(tools: Tools, chat: Chat, _arguments: str) -> Answer:
    return await _decide(tools, chat, Decision.DENY, "Denied")


async def _decide(tools: Tools, chat: Chat, decision: Decision, done: str) -> Answer:
    """Decide what has waited longest."""
    waiting = await tools.agent.open_approvals(chat.session_id, chat.profile)
    if not waiting:
        return wrong("Nothing waits for a decision.")
    first = waiting[0]
    await tools.agent.decide(first.approval_id, chat.profile, decision, chat.user)
    more = f" {len(waiting) - 1} more to decide." if len(waiting) > 1 else ""
    return Answer(f"{done}: {first.tool} `{first.subject}`.{more}")


_APPROVE = Command(
    "approve",
    Group.DECISIONS,
    "allow what is asked, now or for longer",
    (
        Verb("", "allow it this time", _once, changes=True),
        Verb("session", "allow it for as long as the session goes on", _session, changes=True),
        Verb("always", "allow it from now on", _always, who=Who.ADMINS, changes=True),
    ),
    "/approve session",
)
_DENY = plain("deny", Group.DECISIONS, Verb("", "refuse what is asked", _deny, changes=True))


def may_decide(access: Access, source: Source, decision: Decision) -> bool:
    """Whether a person may decide so, by a button or a word as by a command."""
    command = _DENY if decision is Decision.DENY else _APPROVE
    word = "" if decision in (Decision.DENY, Decision.ONCE) else decision.value
    verb = next(each for each in command.verbs if each.name == word)
    is_allowed = access.may(source, command.names(verb), verb.who)
    if not is_allowed:
        refused(source.user, command.names(verb)[-1])
    return is_allowed


COMMANDS: tuple[Command, ...] = (_APPROVE, _DENY)
"""Those of this module."""
