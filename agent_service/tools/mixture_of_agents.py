"""The `mixture_of_agents` tool: several models answer a question and one combines the answers."""

import asyncio
from collections.abc import Sequence

from pydantic import Field

from agent_service.models.consult import Ask, NoAnswer
from agent_service.models.fallback import Route
from agent_service.tools.base import (
    Effect,
    ToolArguments,
    ToolContext,
    ToolFailed,
    ToolResult,
    UsualTool,
)
from services.lifecycle import ungrouped

SETTINGS = ("mixture.reference_models",)
MAX_ANSWER_CHARACTERS = 40_000

_AGGREGATE = (
    "Several models have answered the same question, each by itself. Some of what they say may be "
    "wrong. Write the one answer that is best supported: keep what holds, correct what does not, "
    "settle contradictions by reasoning rather than by counting, and do not mention the models."
)


class MixtureOfAgentsArguments(ToolArguments):
    """Asks several models a hard question, and returns one answer made from theirs.

    It is slow and costs several model calls, so use it where being right matters. The models see
    only the prompt.
    """

    prompt: str = Field(
        min_length=1,
        max_length=200_000,
        description="The whole question, with everything that it needs.",
    )


class MixtureOfAgents(UsualTool[MixtureOfAgentsArguments]):
    """Asks several models and combines their answers."""

    name = "mixture_of_agents"
    toolset = "mixture"
    arguments = MixtureOfAgentsArguments
    usual_effect = Effect.PURE

    def __init__(self, references: Sequence[str], aggregator: str) -> None:
        """`aggregator` is the model that combines the answers; empty is the default model."""
        self._references = tuple(references)
        self._aggregator = aggregator

    async def run(self, arguments: MixtureOfAgentsArguments, context: ToolContext) -> ToolResult:
        question = {"role": "user", "content": arguments.prompt}
        with ungrouped():
            async with asyncio.TaskGroup() as group:
                asked = [
                    group.create_task(_reference(context.ask, question, name))
                    for name in self._references
                ]
        answers = [task.result() for task in asked]
        failed = [answer for answer in answers if isinstance(answer, NoAnswer)]
        given = [answer for answer in answers if isinstance(answer, str)]
        if not given:
            raise ToolFailed(f"None of the models answered: {failed[0]}")
        listed = "\n\n".join(
            f"## Answer {number}\n{answer[:MAX_ANSWER_CHARACTERS]}"
            for number, answer in enumerate(given, 1)
        )
        messages = [{"role": "system", "content": f"{_AGGREGATE}\n\n{listed}"}, question]
        try:
            answer = await context.ask(messages, Route(model=self._aggregator))
        except NoAnswer as error:
            raise ToolFailed(f"The answers could not be combined: {error}") from error
        note = f"\n[{len(failed)} of {len(answers)} models did not answer]" if failed else ""
        return ToolResult(answer + note)


async def _reference(ask: Ask, question: dict[str, str], name: str) -> str | NoAnswer:
    try:
        return await ask([question], Route(model=name))
    except NoAnswer as error:
        return error
