"""Commands that decide approvals."""

from functools import partial
from typing import TypeAlias

from gateway_service.chats.access import Access, Who
from gateway_service.commands.base import (
    Answer,
    Chat,
    Command,
    CommandContext,
    Group,
    Verb,
    log_refusal,
    simple_command,
    wrong,
)
from gateway_service.messages import Source
from hermes.agent.v1 import turn_event_pb2
from hermes.agent.v1.turn_event_pb2 import (
    APPROVAL_DECISION_ALWAYS,
    APPROVAL_DECISION_DENY,
    APPROVAL_DECISION_ONCE,
    APPROVAL_DECISION_SESSION,
)

Decision: TypeAlias = "turn_event_pb2.ApprovalDecision.ValueType"


async def _decide(
    decision: Decision, context: CommandContext, chat: Chat, arguments: str
) -> Answer:
    if arguments and decision == APPROVAL_DECISION_ONCE:
        return wrong("Use /approve, /approve session or /approve always.")
    waiting = await context.agent.open_approvals(chat.session_id, chat.profile)
    if not waiting:
        return wrong("Nothing is waiting for a decision.")
    first = waiting[0]
    await context.agent.decide(first.approval_id, chat.profile, decision, chat.user)
    done = "Denied" if decision == APPROVAL_DECISION_DENY else "Allowed"
    more = f" {len(waiting) - 1} more to decide on." if len(waiting) > 1 else ""
    return Answer(f"{done}: {first.tool} `{first.subject}`.{more}")


_once, _session, _always, _deny = (
    partial(_decide, decision)
    for decision in (
        APPROVAL_DECISION_ONCE,
        APPROVAL_DECISION_SESSION,
        APPROVAL_DECISION_ALWAYS,
        APPROVAL_DECISION_DENY,
    )
)

_APPROVE = Command(
    "approve",
    Group.APPROVALS,
    "allow the tool call that waits, once or for longer",
    (
        Verb("", "allow the tool call that waits, once", _once, changes=True),
        Verb("session", "allow it for the rest of the session", _session, changes=True),
        Verb("always", "allow it from now on", _always, who=Who.ADMINS, changes=True),
    ),
    "/approve session",
)
_DENY = simple_command(
    "deny", Group.APPROVALS, Verb("", "deny the tool call that waits", _deny, changes=True)
)


def may_decide(access: Access, source: Source, decision: Decision) -> bool:
    """Return whether a person may make this decision, by button, word or command."""
    command = _DENY if decision == APPROVAL_DECISION_DENY else _APPROVE
    words = {APPROVAL_DECISION_SESSION: "session", APPROVAL_DECISION_ALWAYS: "always"}
    word = words.get(decision, "")
    verb = next(each for each in command.verbs if each.name == word)
    is_allowed = access.may(source, command.names(verb), verb.who)
    if not is_allowed:
        log_refusal(source.user, command.names(verb)[-1])
    return is_allowed


COMMANDS: tuple[Command, ...] = (_APPROVE, _DENY)
