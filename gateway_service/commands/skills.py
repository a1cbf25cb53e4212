"""`/skills`, and each skill as a command under a name that platforms accept."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import TypeAlias

from gateway_service.clients import call_agent
from gateway_service.commands.base import (
    Answer,
    Chat,
    Command,
    CommandContext,
    Group,
    Verb,
    render_list,
    shorten,
    wrong,
)
from hermes.agent.v1 import skill_pb2
from services.amounts import plural
from services.errors import HermesError

MAX_CHARS = 32
"""Telegram's limit for command names."""
PREFIX = "skill_"
"""The prefix of names that would otherwise be invalid or another command's."""
SHOWN = 30
DESCRIPTION_CHARS = 80
TEXT_CHARS = 2500
UNSORTED = "other"

Skills: TypeAlias = Sequence[skill_pb2.Skill]


async def list_skills(context: CommandContext, profile: str) -> Skills:
    """Return a profile's skills by category and name, and prompts of MCP servers."""
    request = skill_pb2.ListSkillsRequest(profile=profile, include_prompts=True)
    return (await call_agent(context.agent.skills.ListSkills(request))).skills


async def list_skills_or_none(context: CommandContext, profile: str) -> Skills:
    """Return the same; empty while the agent is unreachable, so that commands are still listed."""
    try:
        return await list_skills(context, profile)
    except HermesError:
        return ()


def skill_path(skill: skill_pb2.Skill) -> str:
    """Return the skill's unique path."""
    return f"{skill.category}/{skill.name}" if skill.category else skill.name


def command_names(
    skills: Iterable[skill_pb2.Skill], commands: Sequence[Command]
) -> Mapping[str, skill_pb2.Skill]:
    """Return skills by command name; skills with the same name have none."""
    found: dict[str, skill_pb2.Skill] = {}
    several: set[str] = set()
    for skill in skills:
        name = command_name(skill.name, commands)
        several |= {name} & found.keys()
        found.setdefault(name, skill)
    return {name: skill for name, skill in found.items() if name not in several}


def find_skill(name: str, skills: Iterable[skill_pb2.Skill], commands: Sequence[Command]) -> Skills:
    """Return the skills that a command means, by full name or command name."""
    typed = name.replace("-", "_")
    known = {command.name for command in commands}
    skills = tuple(skills)
    whole = [skill for skill in skills if _plain(skill.name) == typed and typed not in known]
    return whole or [skill for skill in skills if command_name(skill.name, commands) == typed]


def command_name(skill_name: str, commands: Sequence[Command]) -> str:
    """Return a skill's command name: a-z, 0-9 and _, starting with a letter."""
    name = _plain(skill_name)
    if not name[:1].isalpha() or any(name == command.name for command in commands):
        name = PREFIX + name
    return name[:MAX_CHARS].rstrip("_")


def _plain(skill_name: str) -> str:
    kept = (each if each.isascii() and each.isalnum() else "_" for each in skill_name.lower())
    return "".join(kept)


async def _list(context: CommandContext, chat: Chat, _arguments: str) -> Answer:
    skills = await list_skills(context, chat.profile)
    if not skills:
        return Answer("There are no skills yet. I write them as I learn.")
    names = {
        skill_path(skill): name for name, skill in command_names(skills, context.commands).items()
    }
    parts: list[str] = []
    left = SHOWN
    for category, found in groupby(skills, lambda skill: skill.category or UNSORTED):
        lines = [
            f"{'/' if path in names else ''}{names.get(path, path)} "
            f"{shorten(skill.description, DESCRIPTION_CHARS)}"
            for skill in found
            for path in (skill_path(skill),)
        ]
        if left > 0:
            parts.append(f"**{category}**\n" + render_list(lines[:left], ""))
        left -= len(lines)
    if left < 0:
        parts.append(f"{-left} more; `hermes skills list` shows all skills.")
    return Answer("\n\n".join([*parts, "/skills view NAME shows one."]))


async def _view(context: CommandContext, chat: Chat, arguments: str) -> Answer:
    name = arguments.strip("/` ")
    if not name:
        return wrong("Name a skill: `/skills view NAME`. /skills lists them.")
    known = await list_skills(context, chat.profile)
    meant = [skill for skill in known if name in (skill_path(skill), skill.name)]
    meant = meant or list(find_skill(name.lower(), known, context.commands))
    if not meant:
        return wrong(f"There is no skill `{name}`. /skills lists the skills.")
    if len(meant) > 1:
        places = ", ".join(f"`{skill_path(skill)}`" for skill in meant)
        return wrong(f"Several skills have this name: {places}. Name one of them.")
    request = skill_pb2.GetSkillRequest(profile=chat.profile, name=skill_path(meant[0]))
    found = await call_agent(context.agent.skills.GetSkill(request))
    skill, text, usage = found.skill, found.text, found.skill.usage
    facts = [
        f"`/{command_name(skill.name, context.commands)}`",
        f"used {plural(usage.use_count, 'time')}, read {plural(usage.view_count, 'time')}",
        *(["stale"] if usage.state == skill_pb2.SKILL_STATE_STALE else []),
        *(["pinned"] if usage.is_pinned else []),
    ]
    shown = text if len(text) <= TEXT_CHARS else f"{text[:TEXT_CHARS]}\n…"
    more = f"\n\n`hermes skills show {skill_path(skill)}` shows all of it." if shown != text else ""
    fence = "````"
    return Answer(f"{', '.join(facts)}\n\n{fence}\n{shown.replace(fence, '```')}\n{fence}{more}")


COMMANDS: tuple[Command, ...] = (
    Command(
        "skills",
        Group.KNOWLEDGE,
        "list and show skills",
        (
            Verb("list", "list the skills, each with its command", _list),
            Verb("view", "show a skill's text", _view, "NAME"),
        ),
        "/skills view arxiv",
        otherwise="view",
    ),
)
