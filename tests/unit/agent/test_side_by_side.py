"""What calls wait for side by side: a database that is away ends the call as it ends others."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import Connection

from agent_service.delegation import CallSubagents, Delegation
from agent_service.requests import TurnRequest
from agent_service.storage.bindings import Wish
from agent_service.tools.base import ToolContext
from agent_service.tools.delegate_task import DelegateTask, DelegateTaskArguments
from agent_service.tools.mixture_of_agents import MixtureOfAgents, MixtureOfAgentsArguments
from agent_service.tools.toolbox import tried
from agent_service.watching import Watching
from services.clock import SystemClock
from services.errors import DatabaseUnavailable
from tests.unit.agent.test_judged import State
from tests.unit.agent.test_toolbox import turn


class Settled:
    """A database that says of every sandbox what it shall be."""

    async def read(self, work: Callable[[Connection], Any]) -> Wish:
        """The same wish always."""
        return Wish("", "")


class Away:
    """A database that is not there."""

    async def read(self, work: Callable[[Connection], Any]) -> Any:
        """Fail."""
        raise DatabaseUnavailable("the database is away")


class Started:
    """Turns that begin, and whose ends are in a database that is away."""

    def __init__(self) -> None:
        away: Any = Away()
        self.watching = Watching(away, lambda _id: None, lambda _turn: "", SystemClock())

    async def start(self, request: TurnRequest, draft: object) -> None:
        """Begin nothing."""


class Drafts:
    """Sessions as turns would create them."""

    async def draft(self, request: TurnRequest) -> None:
        """None."""


def _context() -> ToolContext:
    unused: Any = None
    return ToolContext("call", unused, unused, State(), None, print)


async def test_a_database_that_is_away_while_subagents_work_is_no_crash() -> None:
    started: Any = Started()
    drafts: Any = Drafts()
    settled: Any = Settled()
    delegation = Delegation(lambda: started, lambda: drafts, ["todo"], 3, settled)
    context = replace(_context(), subagents=CallSubagents(delegation, turn(), "call"))
    arguments = DelegateTaskArguments.model_validate({"tasks": [{"goal": "a"}, {"goal": "b"}]})
    with pytest.raises(DatabaseUnavailable, match="is away"):
        await tried(DelegateTask(), arguments, context)


async def test_a_database_that_is_away_while_models_are_asked_is_no_crash() -> None:
    async def ask(*_asked: object, **_options: object) -> str:
        raise DatabaseUnavailable("the database is away")

    context = replace(_context(), ask=ask)
    with pytest.raises(DatabaseUnavailable, match="is away"):
        await tried(
            MixtureOfAgents(["one", "two"], "judge"), MixtureOfAgentsArguments(prompt="q"), context
        )
