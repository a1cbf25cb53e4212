"""The table of slash commands, and their dispatch."""

import logging
import re
from collections.abc import Sequence
from difflib import get_close_matches

from msgspec import Struct

from gateway_service.chats.access import ANYBODY, SKILLS, Access, Who
from gateway_service.commands import (
    catalogs,
    cron,
    curator,
    decisions,
    hermes,
    memory,
    pairing,
    platforms,
    session,
    skills,
)
from gateway_service.commands.base import (
    Answer,
    Chat,
    Command,
    CommandContext,
    Places,
    list_offered,
    log_refusal,
    may,
    wrong,
)
from gateway_service.commands.skills import (
    command_name,
    command_names,
    find_skill,
    list_skills,
    skill_path,
)
from gateway_service.errors import AgentRefused
from gateway_service.messages import turn_command
from services.errors import HermesError

_log = logging.getLogger(__name__)

# In groups Telegram adds the bot: /stop@my_bot. A path such as /etc/hosts is no command.
_COMMAND = re.compile(r"/([A-Za-z][\w-]*)(?:@\w+)?(?:\s+(.*))?", re.DOTALL)

ONLY_ADMINS = (
    "Only admins of this Hermes may use that command, because it affects other people or costs "
    "money. The owner can make you an admin, or allow you the command, in the platform's settings."
)
DENIED = "The owner of this Hermes does not allow you that command."
ELSEWHERE = "Other people can read this chat. Use that command in a private chat with me."

COMMANDS: tuple[Command, ...] = (
    *session.COMMANDS,
    *decisions.COMMANDS,
    *memory.COMMANDS,
    *skills.COMMANDS,
    *catalogs.COMMANDS,
    *curator.COMMANDS,
    *cron.COMMANDS,
    *platforms.COMMANDS,
    *pairing.COMMANDS,
    *hermes.COMMANDS,
)
"""All commands in help order; a skill with one of these names gets another command name."""


def find_unknown(access: Access) -> Sequence[str]:
    """Return the names in access rules that are no commands, but may be skills."""
    known = {name for each in COMMANDS for verb in each.verbs for name in each.names(verb)}
    return sorted(access.commands() - known - {ANYBODY, SKILLS})


class AsTurn(Struct, frozen=True):
    """A command that is passed to the agent as a message."""

    skill: str = ""
    """The path of the command's skill; empty if it has none."""


def parse(text: str) -> tuple[str, str] | None:
    """Return the command's name and arguments; None if the text is no command."""
    found = _COMMAND.fullmatch(text.strip())
    return (found[1].lower(), (found[2] or "").strip()) if found else None


async def dispatch(
    context: CommandContext, chat: Chat, name: str, arguments: str
) -> Answer | AsTurn:
    """Execute a command; errors become the answer.

    An unknown name may be a skill's: ServiceUnavailable if the agent cannot be asked.
    """
    command = next((each for each in context.commands if each.name == name), None)
    if command is None:
        return await _as_skill(context, chat, name, arguments)
    verb, rest = command.verb(arguments)
    if verb is None:
        return _no_verb(command)
    if not chat.place & command.places:
        return wrong(ELSEWHERE if chat.place is Places.GROUP else f"/{name} does not work here.")
    full_name = command.names(verb)[-1]
    if not may(chat, command, verb):
        log_refusal(chat.user, full_name)
        is_admin = chat.access is not None and chat.access.is_admin(chat.source)
        return wrong(DENIED if is_admin or verb.who is Who.EVERYBODY else ONLY_ADMINS)
    if refusal := await _veto(context, chat, command.alias_of or name, arguments):
        return Answer(refusal)
    if turn_command(f"/{name} {arguments}"):
        return AsTurn()
    if verb.changes:
        about = {"audit": "command_used", "command": full_name, "user": chat.user}
        _log.info("%s uses the command %s", chat.user, full_name, extra=about)
    try:
        return await verb.run(context, chat, rest)
    except HermesError as error:
        return wrong(error.message)


async def _veto(context: CommandContext, chat: Chat, name: str, arguments: str) -> str:
    return await context.hooks.veto(name, arguments, chat.source, chat.session_id)


async def _as_skill(
    context: CommandContext, chat: Chat, name: str, arguments: str
) -> Answer | AsTurn:
    try:
        known = await list_skills(context, chat.profile)
    except AgentRefused as error:
        return wrong(f"There is no command /{name}, and the skills cannot be read: {error.message}")
    found = find_skill(name, known, context.commands)
    if len(found) > 1:
        places = ", ".join(f"`{skill_path(skill)}`" for skill in found)
        return wrong(f"Several skills are called /{name}: {places}. Ask for one in a message.")
    if not found:
        if refusal := await _veto(context, chat, name, arguments):
            return Answer(refusal)
        return _unknown(context, chat, name, [*command_names(known, context.commands)])
    names = (command_name(found[0].name, context.commands), found[0].name, SKILLS)
    if chat.access is not None and not chat.access.may(chat.source, names, Who.EVERYBODY):
        log_refusal(chat.user, names[0])
        return wrong(DENIED)
    refusal = await _veto(context, chat, names[0], arguments)
    return Answer(refusal) if refusal else AsTurn(skill_path(found[0]))


def _unknown(context: CommandContext, chat: Chat, name: str, named: list[str]) -> Answer:
    known = [each.name for each in list_offered(context.commands, chat)]
    near = get_close_matches(name.replace("-", "_"), [*known, *named], n=3, cutoff=0.7)
    meant = f" Did you mean {' or '.join(f'/{each}' for each in near)}?" if near else ""
    return wrong(f"There is no command /{name}.{meant} /help lists all commands.")


def _no_verb(command: Command) -> Answer:
    typed = (f"/{command.name} {verb.name}".rstrip() for verb in command.verbs)
    return wrong(f"Use {' or '.join(f'`{each}`' for each in typed)}. See /help {command.name}.")
