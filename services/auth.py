"""Who calls, and what each may call: identities, tokens and the per-method policy."""

from collections.abc import Iterable, Mapping
from enum import StrEnum


class Identity(StrEnum):
    """Who can call a service."""

    AGENT = "agent"
    EXECUTOR = "executor"
    GATEWAY = "gateway"
    SCHEDULER = "scheduler"
    OPERATOR = "operator"


Policy = Mapping[str, frozenset[Identity]]
"""Full method name, such as `/hermes.agent.v1.TurnService/StartTurn`, to who may call it."""


def allow(service: str, methods: Mapping[str, Iterable[Identity]]) -> Policy:
    """Returns the policy of one service, from its full name and who may call each method."""
    return {f"/{service}/{method}": frozenset(callers) for method, callers in methods.items()}
