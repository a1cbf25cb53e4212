"""`/pairing`: people who ask to be let in."""

from datetime import datetime

from gateway_service.chats.access import Who
from gateway_service.chats.pairing import Pairings
from gateway_service.commands.base import (
    ALONE,
    Answer,
    Chat,
    Command,
    CommandContext,
    Group,
    Verb,
    code,
    render_list,
    wrong,
)
from gateway_service.storage.pairings import Pairing, Person

_HOW = "Say the code that the person was given: `/pairing approve ABCD2345`."


async def _list(context: CommandContext, chat: Chat, _arguments: str) -> Answer:
    found = await _pairings(context).list(chat.profile)
    if not found:
        return Answer("Nobody waits to be let in, and nobody was let in by a code.")
    now = context.clock.now()
    hint = "hermes pairing list shows all of them"
    return Answer(render_list([_line(each, now) for each in found], hint))


async def _approve(context: CommandContext, chat: Chat, arguments: str) -> Answer:
    if not arguments:
        return wrong(_HOW)
    approval = await _pairings(context).approve(chat.profile, arguments, chat.user)
    found = approval.pairing
    if not approval.is_new:
        return Answer(f"This code was used before: {_named(found)} may talk to me already.")
    return Answer(
        f"{_named(found)} may talk to me now. /pairing revoke {found.person.platform} "
        f"{found.person.user_id} takes that back."
    )


async def _revoke(context: CommandContext, chat: Chat, arguments: str) -> Answer:
    platform, _, user_id = arguments.partition(" ")
    if not user_id.strip():
        return wrong("Say the platform and the person's id: `/pairing revoke telegram 12345`.")
    person = Person(chat.profile, platform.lower(), user_id.strip())
    await _pairings(context).revoke(person, chat.user)
    return Answer(f"{code(person.user_id)} may not talk to me on {person.platform} any more.")


def _pairings(context: CommandContext) -> Pairings:
    return Pairings(context.database, context.clock)


def _line(found: Pairing, now: datetime) -> str:
    if found.approved_at is None and found.expires_at is not None:
        minutes = int((found.expires_at - now).total_seconds() / 60) + 1
        return f"{_named(found)} waits; the code is valid for {minutes} more min"
    return f"{_named(found)} was let in{' as an admin' if found.is_admin else ''}"


def _named(found: Pairing) -> str:
    person = found.person
    name = f"{code(found.user_name)} " if found.user_name else ""
    return f"{name}({person.platform} {code(person.user_id)})"


COMMANDS: tuple[Command, ...] = (
    Command(
        "pairing",
        Group.HERMES,
        "who may talk to Hermes besides those in its settings",
        (
            Verb("list", "who waits to be let in, and who was let in", _list, who=Who.ADMINS),
            Verb("approve", "let a person in", _approve, "CODE", Who.ADMINS, changes=True),
            Verb("revoke", "shut a person out", _revoke, "PLATFORM USER", Who.ADMINS, changes=True),
        ),
        "/pairing approve ABCD2345",
        ALONE,
    ),
)
