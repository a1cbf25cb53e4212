"""The `memory` tool: what is remembered across sessions."""

from typing import Literal

from pydantic import Field

from agent_service.profiles.memory.entries import Action, MemoryRefused, Operation, Target
from agent_service.profiles.memory.store import MemoryChangeRequest, MemoryStore
from agent_service.storage.sessions import MEMORY_LIMITS
from agent_service.tools.base import (
    Effect,
    ToolArguments,
    ToolContext,
    ToolFailed,
    ToolResult,
    UsualTool,
)
from services.errors import HermesError

MAX_OPERATIONS = 64


class MemoryOperation(ToolArguments):
    """One change of one entry."""

    action: Literal["add", "replace", "remove"]
    content: str = ""
    old_text: str = ""


class MemoryArguments(ToolArguments):
    """Remembers something for all later sessions, or corrects what is remembered.

    `memory` is for what you learned: the environment, conventions of projects, quirks of tools.
    `user` is for who the user is: preferences, ways of working, what annoys them. Keep entries
    short and of lasting use. The next session has your changes in its prompt.
    """

    target: Literal["memory", "user"] = Field(description="Which memory to change.")
    action: Literal["add", "replace", "remove"] | None = Field(
        default=None, description="What to do; leave it out when you give operations."
    )
    content: str = Field(default="", description="The new entry, for add and replace.")
    old_text: str = Field(
        default="",
        description="Part of the entry to change or remove; no other entry may contain it.",
    )
    operations: list[MemoryOperation] = Field(
        default_factory=list[MemoryOperation],
        max_length=MAX_OPERATIONS,
        description="Several changes at once: either all are made, or none.",
    )


class MemoryTool(UsualTool[MemoryArguments]):
    """Changes memories."""

    name = "memory"
    toolset = "memory"
    arguments = MemoryArguments
    usual_effect = Effect.KEYED
    """A repeated change is recognized by the call's key."""

    def __init__(self, memories: MemoryStore) -> None:
        self._memories = memories

    def writes(self, arguments: MemoryArguments) -> frozenset[str]:
        """The memory, so that the changes of one message are made in order."""
        return frozenset({f"memory:{arguments.target}"})

    async def run(self, arguments: MemoryArguments, context: ToolContext) -> ToolResult:
        caller = context.caller
        limits: dict[str, int] = await context.state.get(MEMORY_LIMITS) or {}
        asked = MemoryChangeRequest(
            key=context.key,
            profile=caller.profile,
            target=Target(arguments.target),
            operations=_operations(arguments),
            by="agent",
            turn_id=caller.turn_id,
            limit=limits.get(arguments.target),
        )
        try:
            memory = await self._memories.change(asked)
        except MemoryRefused as refused:
            raise ToolFailed(refused.message) from refused
        except HermesError as error:
            raise ToolFailed(f"The memory cannot be changed now: {error.message}") from error
        return ToolResult(f"Remembered ({arguments.target}: {memory.used}).")


def _operations(arguments: MemoryArguments) -> tuple[Operation, ...]:
    given = [
        Operation(Action(one.action), one.content, one.old_text) for one in arguments.operations
    ]
    if arguments.action is not None:
        own = Operation(Action(arguments.action), arguments.content, arguments.old_text)
        given.insert(0, own)
    return tuple(given)
