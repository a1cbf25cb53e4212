"""The table of rules for commands, and its engine."""

from agent_service.security.commands.rules.base import Rule
from agent_service.security.commands.rules.network import NETWORK_RULES
from agent_service.security.commands.rules.services import SERVICE_RULES
from agent_service.security.commands.rules.system import SYSTEM_RULES

RULES: tuple[Rule, ...] = (*SYSTEM_RULES, *SERVICE_RULES, *NETWORK_RULES)
