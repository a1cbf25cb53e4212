"""`/pairing`: people who ask for access."""

from datetime import datetime

from gateway_service.chats.access import Who
from gateway_service.chats.pairing import Pairings
from gateway_service.commands.base import (
    NOT_IN_GROUPS,
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

_HOW = "Add the code that the person got: `/pairing approve ABCD2345`."


async def _list(context: CommandContext, chat: Chat, _arguments: str) -> Answer:
    found = await _pairings(context).list(chat.profile)
    if not found:
        return Answer("Nobody is waiting for access, and nobody has got access by a code.")
    now = context.clock.now()
    hint = "hermes pairing list shows all people"
    return Answer(render_list([_line(each, now) for each in found], hint))


async def _approve(context: CommandContext, chat: Chat, arguments: str) -> Answer:
    if not arguments:
        return wrong(_HOW)
    approval = await _pairings(context).approve(chat.profile, arguments, chat.user)
    found = approval.pairing
    if not approval.is_new:
        return Answer(f"This code was used before: {_named(found)} already has access.")
    return Answer(
        f"{_named(found)} may talk to me now. To revoke this: /pairing revoke "
        f"{found.person.platform} {found.person.user_id}"
    )


async def _revoke(context: CommandContext, chat: Chat, arguments: str) -> Answer:
    platform, _, user_id = arguments.partition(" ")
    if not user_id.strip():
        return wrong("Add the platform and the person's id: `/pairing revoke telegram 12345`.")
    person = Person(chat.profile, platform.lower(), user_id.strip())
    await _pairings(context).revoke(person, chat.user)
    return Answer(f"{code(person.user_id)} may no longer talk to me on {person.platform}.")


def _pairings(context: CommandContext) -> Pairings:
    return Pairings(context.database, context.clock)


def _line(found: Pairing, now: datetime) -> str:
    if found.approved_at is None and found.expires_at is not None:
        minutes = int((found.expires_at - now).total_seconds() / 60) + 1
        return f"{_named(found)} is waiting; the code is valid for {minutes} more min"
    return f"{_named(found)} has access{' as an admin' if found.is_admin else ''}"


def _named(found: Pairing) -> str:
    person = found.person
    name = f"{code(found.user_name)} " if found.user_name else ""
    return f"{name}({person.platform} {code(person.user_id)})"


COMMANDS: tuple[Command, ...] = (
    Command(
        "pairing",
        Group.HERMES,
        "give people access to Hermes, and revoke it",
        (
            Verb("list", "list who waits for access, and who has it", _list, who=Who.ADMINS),
            Verb("approve", "give a person access", _approve, "CODE", Who.ADMINS, changes=True),
            Verb("revoke", "revoke access", _revoke, "PLATFORM USER", Who.ADMINS, changes=True),
        ),
        "/pairing approve ABCD2345",
        NOT_IN_GROUPS,
    ),
)
