"""Commands about Hermes itself: help, and who the person is."""

from gateway_service.commands.base import (
    Answer,
    Chat,
    Command,
    CommandContext,
    Group,
    Places,
    Verb,
    list_offered,
    may,
    shorten,
    simple_command,
    usage_error,
    wrong,
)
from gateway_service.commands.skills import command_names, find_skill, list_skills_or_none

GREETING = (
    "Hello, I am Hermes. Tell me in your own words what I should do. I run commands and write "
    "files in a sandbox, and I can work on a schedule."
)
"""The answer to a person who starts a chat."""

SKILLS_SHOWN = 12


async def _start(context: CommandContext, chat: Chat, _arguments: str) -> Answer:
    return Answer(f"{GREETING} I also know these commands:\n\n{await _all(context, chat)}")


async def _help(context: CommandContext, chat: Chat, arguments: str) -> Answer:
    name = arguments.strip("/` ").lower()
    if not name:
        return Answer(await _all(context, chat))
    mine = list_offered(context.commands, chat)
    command = next((each for each in mine if each.name == name), None)
    if command is not None:
        return Answer(_detailed(command, chat))
    found = find_skill(name, await list_skills_or_none(context, chat.profile), context.commands)
    if len(found) == 1:
        about = f"`/{name} TEXT` makes me follow the skill {found[0].name}: {found[0].description}"
        return Answer(about)
    return wrong(f"There is no command /{name}. /help lists all commands.")


async def _all(context: CommandContext, chat: Chat) -> str:
    mine, parts = list_offered(context.commands, chat), list[str]()
    for group in Group:
        lines = [f"- `{_usage(each, chat)}` {each.help}" for each in mine if each.group is group]
        if lines:
            parts.append("\n".join([f"**{group.value}**", *lines]))
    names = sorted(
        command_names(await list_skills_or_none(context, chat.profile), context.commands)
    )
    if names:
        shown = ", ".join(f"/{name}" for name in names[:SKILLS_SHOWN])
        left = len(names) - SKILLS_SHOWN
        parts.append(f"**Skills**\n{shown}{f' and {left} more, see /skills' if left > 0 else ''}")
    return "\n\n".join([*parts, "/help NAME describes a command."])


def _usage(command: Command, chat: Chat) -> str:
    mine = [verb for verb in command.verbs if may(chat, command, verb)]
    if len(mine) > 1:
        names = "|".join(verb.name for verb in mine if verb.name)
        return f"/{command.name} [{names}]"
    return " ".join(filter(None, (f"/{command.name}", mine[0].name, mine[0].arguments)))


def _detailed(command: Command, chat: Chat) -> str:
    lines = [f"**/{command.name}**: {command.help}"]
    for verb in command.verbs:
        if may(chat, command, verb):
            typed = " ".join(filter(None, (f"/{command.name}", verb.name, verb.arguments)))
            lines.append(f"- `{typed}` {verb.help}")
    if len(command.verbs) == 1:
        lines = [f"`{_usage(command, chat)}` {command.help}"]
    return "\n".join(lines) + f"\n\nFor example: `{command.example}`"


async def _whoami(_context: CommandContext, chat: Chat, _arguments: str) -> Answer:
    if chat.access is None:
        return Answer(f"You are {shorten(chat.user)} in a terminal, and may use every command.")
    role = "an admin" if chat.access.is_admin(chat.source) else "not an admin"
    source = chat.source
    return Answer(f"You are `{source.user_id}` on {source.platform}, and {role} of this Hermes.")


# Terminals handle this themselves; chats cannot be left.
_quit = usage_error("/quit takes no arguments.")
COMMANDS: tuple[Command, ...] = (
    simple_command(
        "help",
        Group.HERMES,
        Verb("", "list the commands, or describe one", _help, "[NAME]"),
        "/help cron",
    ),
    simple_command("whoami", Group.HERMES, Verb("", "show who Hermes takes you for", _whoami)),
    simple_command("start", Group.HERMES, Verb("", "introduce Hermes", _start)),
    simple_command("quit", Group.HERMES, Verb("", "leave", _quit), places=Places.TERMINAL),
)
