"""The `todo` tool: the plan of a session."""

from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from agent_service.tools.base import (
    Effect,
    RetryWithHint,
    ToolArguments,
    ToolContext,
    ToolResult,
    UsualTool,
)

MAX_ITEMS = 256
STATE = "todo"

_MARKS = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]", "cancelled": "[-]"}


class TodoItem(ToolArguments):
    """One thing to do."""

    id: Annotated[str, Field(min_length=1, max_length=64)]
    content: Annotated[str, Field(min_length=1, max_length=2000)]
    status: Literal["pending", "in_progress", "completed", "cancelled"] = "pending"


_PLAN = TypeAdapter(list[TodoItem])


class TodoArguments(ToolArguments):
    """Keeps this session's plan. Without todos it shows the plan.

    Use it for work with several steps: write the steps down, keep one in progress, and mark each as
    completed as soon as it is done.
    """

    todos: list[TodoItem] | None = Field(
        default=None,
        max_length=MAX_ITEMS,
        description="The items. They replace the plan unless merge is set.",
    )
    merge: bool = Field(
        default=False, description="Change or add these items by id, and keep the others."
    )


class Todo(UsualTool[TodoArguments]):
    """Keeps the plan."""

    name = "todo"
    toolset = "todo"
    arguments = TodoArguments
    usual_effect = Effect.PURE
    usual_writes = frozenset({STATE})

    async def run(self, arguments: TodoArguments, context: ToolContext) -> ToolResult:
        items = _PLAN.validate_python(await context.state.get(STATE) or [])
        if arguments.todos is not None:
            items = _merged(items if arguments.merge else [], arguments.todos)
            await context.state.put(STATE, [item.model_dump() for item in items])
        return ToolResult(_render(items) or "The plan is empty.")


def shown_plan(stored: Any) -> str:
    """The plan as the model sees it, from the session's stored value."""
    return _render(_PLAN.validate_python(stored or []))


def _render(items: list[TodoItem]) -> str:
    return "\n".join(f"{_MARKS[item.status]} {item.id}: {item.content}" for item in items)


def _merged(kept: list[TodoItem], given: list[TodoItem]) -> list[TodoItem]:
    merged = {item.id: item for item in [*kept, *given]}
    if len(merged) > MAX_ITEMS:
        raise RetryWithHint(f"A plan can have at most {MAX_ITEMS} items. Remove what is done.")
    return list(merged.values())
