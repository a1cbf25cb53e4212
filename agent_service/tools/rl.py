"""The tools that run environments: `rl_list_environments`, `rl_start` and so on."""

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from pydantic import Field

from agent_service.records.jobs import Environments, RunOptions, SchedulerAway, SchedulerRefused
from agent_service.records.requests import BATCH
from agent_service.tools.base import (
    Effect,
    RetryWithHint,
    ToolArguments,
    ToolContext,
    ToolFailed,
    ToolResult,
    UsualTool,
)
from services.errors import InvalidArgument, NotFound

SETTINGS = ("tools.rl",)
_AWAY = "The scheduler, which works on runs, does not answer. Tell the user, and try again later."
_IN_BATCH = "This conversation is part of a run or a batch, and cannot start one."
_MEANS = ("score", "reward")


class RlListEnvironments(ToolArguments):
    """Lists environments: sets of tasks whose results are scored, to evaluate or train a model.

    Each has the number of its tasks, or what is wrong with it.
    """


class RlStart(ToolArguments):
    """Starts a run: a model tries the tasks of an environment, each in a sandbox of its own.

    It works in the background and costs model calls: tell the user how many attempts there will be
    before you start many, and set budget_usd. The result names the run for the other rl tools.
    """

    environment: str = Field(min_length=1, description="Name, as rl_list_environments shows it.")
    groups: int = Field(
        default=0,
        ge=0,
        le=10_000,
        description="Number of tasks to try, in an order that the seed decides; 0 is each once.",
    )
    group_size: int = Field(default=1, ge=1, le=256, description="Attempts at each task.")
    model: str = Field(default="", max_length=200, description="Model, if not the default.")
    budget_usd: float = Field(
        default=0, ge=0, le=1e6, description="No more attempts begin at this cost; 0 is no limit."
    )
    max_model_calls: int = Field(default=0, ge=0, le=1000, description="Most calls per attempt.")
    seed: int = Field(default=0, ge=0, le=2**31, description="Decides the order of tasks.")


class RlStatus(ToolArguments):
    """Shows how far a run is: its state, and how many attempts are done, succeeded and failed."""

    run: str = Field(min_length=1, description="The run's name, as rl_start returned it.")


class RlStop(RlStatus):
    """Stops a run: no more attempts begin, and those under way are finished."""


class RlResults(RlStatus):
    """Shows the results of a run: mean score and reward, and those of its worst attempts.

    The score is what the task's check gave, 0 to 1; the reward is less for long attempts.
    """

    limit: int = Field(default=20, ge=0, le=500, description="Number of attempts to show.")


class EnvironmentTool(UsualTool[Any]):
    """Shows an answer about environments as JSON."""

    toolset = "rl"

    def __init__(
        self,
        name: str,
        arguments: type[ToolArguments],
        effect: Effect,
        answer: Callable[[Any, ToolContext], Awaitable[Any]],
    ) -> None:
        self.name = name
        self.arguments = arguments
        self.usual_effect = effect
        self._answer = answer

    async def run(self, arguments: Any, context: ToolContext) -> ToolResult:
        try:
            found = await self._answer(arguments, context)
        except (InvalidArgument, NotFound) as error:
            raise RetryWithHint(f"{error.message}.") from None
        except SchedulerRefused as error:
            raise ToolFailed(str(error)) from None
        except SchedulerAway:
            raise ToolFailed(_AWAY) from None
        return ToolResult(json.dumps(found, ensure_ascii=False))


def rl_tools(environments: Environments) -> Sequence[EnvironmentTool]:
    """Return the tools, in the order that the model sees."""

    async def start(given: RlStart, context: ToolContext) -> Any:
        if context.caller.origin.get("platform") == BATCH:
            raise ToolFailed(_IN_BATCH)
        fields = given.model_dump()
        budget = round(fields.pop("budget_usd") * 1e6)
        options = RunOptions(**fields, budget_micro_usd=budget)
        return await environments.start(context.caller.profile, context.key, options)

    async def results(given: RlResults, context: ToolContext) -> Any:
        found = await environments.results(context.caller.profile, given.run)
        count = max(1, len(found))
        means = {f"mean_{name}": sum(each[name] for each in found) / count for name in _MEANS}
        worst = sorted(found, key=lambda each: each["reward"])[: given.limit]
        return {"ended": len(found), **means, "worst": worst}

    async def known(_given: RlListEnvironments, context: ToolContext) -> Any:
        return await environments.list(context.caller.profile)

    async def status(given: RlStatus, context: ToolContext) -> Any:
        return await environments.get(context.caller.profile, given.run)

    async def stop(given: RlStop, context: ToolContext) -> Any:
        return await environments.stop(context.caller.profile, given.run)

    return (
        EnvironmentTool("rl_list_environments", RlListEnvironments, Effect.PURE, known),
        EnvironmentTool("rl_start", RlStart, Effect.KEYED, start),
        EnvironmentTool("rl_status", RlStatus, Effect.PURE, status),
        EnvironmentTool("rl_stop", RlStop, Effect.KEYED, stop),
        EnvironmentTool("rl_results", RlResults, Effect.PURE, results),
    )
