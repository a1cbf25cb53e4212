"""THE table of slash commands, in the order in which help has them."""

from gateway_service.commands import (
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
