"""THE table of rules, by the program that they look at."""

from collections import defaultdict
from collections.abc import Mapping
from types import MappingProxyType

from agent_service.security.commands.rules.access import ACCESS_RULES
from agent_service.security.commands.rules.base import Rule
from agent_service.security.commands.rules.data import DATA_RULES
from agent_service.security.commands.rules.devices import DEVICE_RULES
from agent_service.security.commands.rules.files import FILE_RULES
from agent_service.security.commands.rules.machine import MACHINE_RULES
from agent_service.security.commands.rules.network import NETWORK_RULES
from agent_service.security.commands.rules.sending import SENDING_RULES
from agent_service.security.commands.rules.tools import TOOL_RULES
from agent_service.security.commands.rules.transfers import TRANSFER_RULES
from agent_service.security.commands.rules.upkeep import UPKEEP_RULES

RULES: tuple[Rule, ...] = (
    *FILE_RULES,
    *ACCESS_RULES,
    *DEVICE_RULES,
    *MACHINE_RULES,
    *NETWORK_RULES,
    *TRANSFER_RULES,
    *DATA_RULES,
    *TOOL_RULES,
    *UPKEEP_RULES,
    *SENDING_RULES,
)
"""Every rule."""


def by_program() -> Mapping[str, tuple[Rule, ...]]:
    """The rules of every program."""
    found: defaultdict[str, list[Rule]] = defaultdict(list)
    for rule in RULES:
        for program in rule.programs.split():
            found[program].append(rule)
    return MappingProxyType({program: tuple(rules) for program, rules in found.items()})
