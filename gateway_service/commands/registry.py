"""THE table of slash commands, in the order in which help has them."""

from collections.abc import Sequence

from gateway_service.authorization import ANYBODY, SKILLS, Rights
from gateway_service.commands import (
    busy,
    catalogs,
    cron,
    curator,
    decisions,
    hermes,
    memory,
    skills,
    talking,
    usage,
)
from gateway_service.commands.base import Command

COMMANDS: tuple[Command, ...] = (
    *talking.COMMANDS,
    *busy.COMMANDS,
    *usage.COMMANDS,
    *decisions.COMMANDS,
    *memory.COMMANDS,
    *skills.COMMANDS,
    *catalogs.COMMANDS,
    *curator.COMMANDS,
    *cron.COMMANDS,
    *hermes.COMMANDS,
)
"""All there are; a skill that has one of these names has another as a command."""


def not_known(rights: Rights) -> Sequence[str]:
    """What rights name and no command is called; it may be a skill's."""
    known = {name for each in COMMANDS for verb in each.verbs for name in each.names(verb)}
    return sorted({*rights.commands()} - known - {ANYBODY, SKILLS})
