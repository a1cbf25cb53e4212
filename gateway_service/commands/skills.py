"""`/skills`: what the agent has learned to do. Each of them is a command itself, see `names`."""

from itertools import groupby

from gateway_service.commands.base import Answer, Chat, Command, Group, Tools, Verb, wrong
from gateway_service.commands.names import command_name, command_names, skill_named
from gateway_service.commands.texts import counted, listed, shortened

SHOWN = 30
DESCRIPTION_CHARS = 80
TEXT_CHARS = 2500
UNSORTED = "other"


async def _list(tools: Tools, chat: Chat, _arguments: str) -> Answer:
    skills = await tools.clients.skills.all(chat.profile)
    if not skills:
        return Answer("There are no skills yet; I write down what I learn.")
    names = {skill.path: name for name, skill in command_names(skills, tools.commands).items()}
    parts: list[str] = []
    left = SHOWN
    for category, found in groupby(skills, lambda skill: skill.category or UNSORTED):
        lines = [
            f"{'/' if skill.path in names else ''}{names.get(skill.path, skill.path)} "
            f"{shortened(skill.description, DESCRIPTION_CHARS)}"
            for skill in found
        ]
        if left > 0:
            parts.append(f"**{category}**\n" + listed(lines[:left], ""))
        left -= len(lines)
    if left < 0:
        parts.append(f"{-left} more; `hermes skills list` shows all of them.")
    return Answer("\n\n".join([*parts, "/skills view NAME shows one."]))


async def _view(tools: Tools, chat: Chat, arguments: str) -> Answer:
    name = arguments.strip("/` ")
    if not name:
        return wrong("Say which: `/skills view NAME`; /skills lists them.")
    known = await tools.clients.skills.all(chat.profile)
    meant = [skill for skill in known if name in (skill.path, skill.name)]
    meant = meant or list(skill_named(name.lower(), known, tools.commands))
    if not meant:
        return wrong(f"There is no skill `{name}`; /skills lists them.")
    if len(meant) > 1:
        places = ", ".join(f"`{skill.path}`" for skill in meant)
        return wrong(f"There are several: {places}. Say which.")
    skill, text = await tools.clients.skills.one(chat.profile, meant[0].path)
    used = f"used {counted(skill.use_count, 'time')}, read {counted(skill.view_count, 'time')}"
    states = [state for state, holds in _states(skill.is_stale, skill.is_pinned) if holds]
    said = f"`/{command_name(skill.name, tools.commands)}`, {', '.join([used, *states])}"
    shown = text if len(text) <= TEXT_CHARS else f"{text[:TEXT_CHARS]}\n…"
    more = f"\n\n`hermes skills show {skill.path}` shows all of it." if shown != text else ""
    fence = "````"
    return Answer(f"{said}\n\n{fence}\n{shown.replace(fence, '```')}\n{fence}{more}")


def _states(is_stale: bool, is_pinned: bool) -> tuple[tuple[str, bool], ...]:
    return ("stale", is_stale), ("pinned", is_pinned)


COMMANDS: tuple[Command, ...] = (
    Command(
        "skills",
        Group.KNOWLEDGE,
        "what Hermes has learned to do",
        (
            Verb("list", "list the skills, each with its command", _list),
            Verb("view", "show what a skill says", _view, "NAME"),
        ),
        "/skills view arxiv",
        otherwise="view",
    ),
)
"""Those of this module."""
