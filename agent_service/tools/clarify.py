"""The `clarify` tool: asks the user a question."""

from pydantic import Field

from agent_service.records.events import Decision
from agent_service.tools.base import (
    Effect,
    ToolArguments,
    ToolContext,
    ToolFailed,
    ToolResult,
    UsualTool,
)
from agent_service.tools.guards.approval import DecisionRequired

MAX_CHOICES = 4
ANSWER = "The user answered: "

_NO_ANSWER = (
    "Nobody answered in time. Continue as you think best, and say what you assumed. Do not ask "
    "the same question again."
)
_NOBODY = (
    "Nobody can answer: a program started this conversation. Decide yourself, and say what you "
    "decided."
)


class ClarifyArguments(ToolArguments):
    """Asks the user a question and waits for the answer.

    Use it if a wrong guess would be costly or hard to undo. Do not use it for what you can find out
    yourself, or to ask for permission.
    """

    question: str = Field(
        min_length=1, max_length=2_000, description="The question. It must make sense on its own."
    )
    choices: tuple[str, ...] = Field(
        default=(),
        max_length=MAX_CHOICES,
        description="Answers to choose from, at most 4. The user can also give another answer.",
    )


class Clarify(UsualTool[ClarifyArguments]):
    """Asks the user."""

    name = "clarify"
    toolset = "clarify"
    arguments = ClarifyArguments
    usual_effect = Effect.KEYED
    """The question is stored once, by the call's key."""
    usual_writes = frozenset({"person"})

    async def run(self, arguments: ClarifyArguments, context: ToolContext) -> ToolResult:
        if not context.can_ask or context.caller.origin.get("trust") == "service":
            raise ToolFailed(_NOBODY)
        match context.decision:
            case Decision.ANSWERED:
                return ToolResult(f"{ANSWER}{_chosen(arguments, context.answer)}")
            case Decision.EXPIRED:
                return ToolResult(_NO_ANSWER)
            case _:
                raise DecisionRequired(arguments.question, choices=arguments.choices)


def _chosen(arguments: ClarifyArguments, answer: str) -> str:
    number = answer.strip().rstrip(".)")
    if number.isascii() and number.isdigit() and 1 <= int(number) <= len(arguments.choices):
        return arguments.choices[int(number) - 1]
    return answer.strip()
