"""Skills as commands: a name that every platform takes, and none that is a command's already."""

from collections.abc import Iterable, Mapping, Sequence

from gateway_service.clients.skills import SkillInfo
from gateway_service.commands.base import Command

MAX_CHARS = 32
"""Of a command's name, as Telegram takes it."""
PREFIX = "skill_"
"""Before the names of skills that are no name of a command, or another command's."""


def command_names(
    skills: Iterable[SkillInfo], commands: Sequence[Command]
) -> Mapping[str, SkillInfo]:
    """Skills by the names of their commands; those of which several have one have none."""
    found: dict[str, SkillInfo] = {}
    several: set[str] = set()
    for skill in skills:
        name = command_name(skill.name, commands)
        several |= {name} & found.keys()
        found.setdefault(name, skill)
    return {name: skill for name, skill in found.items() if name not in several}


def skill_named(
    name: str, skills: Iterable[SkillInfo], commands: Sequence[Command]
) -> Sequence[SkillInfo]:
    """The skills that a command means, by their whole name or by the command's."""
    typed = name.replace("-", "_")
    known = {command.name for command in commands}
    skills = tuple(skills)
    whole = [skill for skill in skills if _plain(skill.name) == typed and typed not in known]
    return whole or [skill for skill in skills if command_name(skill.name, commands) == typed]


def command_name(skill_name: str, commands: Sequence[Command]) -> str:
    """The name of a skill's command, in a-z, 0-9 and _, beginning with a letter."""
    name = _plain(skill_name)
    if not name[:1].isalpha() or any(name == command.name for command in commands):
        name = PREFIX + name
    return name[:MAX_CHARS].rstrip("_")


def _plain(skill_name: str) -> str:
    kept = (each if each.isascii() and each.isalnum() else "_" for each in skill_name.lower())
    return "".join(kept)
