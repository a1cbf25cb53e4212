"""The `delegate_task` tool: hands work to subagents, which report the outcome."""

from collections.abc import Sequence

from pydantic import Field

from agent_service.tools.base import (
    Effect,
    RetryWithHint,
    ToolArguments,
    ToolContext,
    ToolFailed,
    ToolResult,
    UsualTool,
)
from agent_service.tools.guards.taint import fenced, sources, taint
from agent_service.tools.output import ends
from agent_service.tools.subagents import NoSubagents, Report, Task

NAME = "delegate_task"
MAX_CHARS = 24_000
_NOTE_CHARS = 50
"""Room for the note about omitted text."""


class DelegatedTask(ToolArguments):
    """One of several tasks."""

    goal: str = Field(min_length=1, description="What to achieve.")
    context: str = Field(default="", description="What the subagent must know.")


class DelegateTaskArguments(ToolArguments):
    """Hands a task to a subagent, or several tasks to several subagents in parallel, and waits for
    them.

    A subagent knows only the goal and the context that you give it, works in its own sandbox, and
    cannot ask questions. You get only its last message. Use it for independent tasks, and for many
    steps of which you need only the result; not for one or two steps.
    """

    goal: str = Field(default="", description="What to achieve; for a single task.")
    context: str = Field(
        default="", description="What the subagent must know: facts, limits, the format you want."
    )
    tasks: tuple[DelegatedTask, ...] = Field(
        default=(), description="Several tasks at once, instead of goal."
    )
    toolsets: tuple[str, ...] = Field(
        default=(),
        description="Toolsets that subagents may use; empty allows all that they can have.",
    )


class DelegateTask(UsualTool[DelegateTaskArguments]):
    """Hands work over."""

    name = NAME
    toolset = "delegation"
    arguments = DelegateTaskArguments
    usual_effect = Effect.KEYED

    async def run(self, arguments: DelegateTaskArguments, context: ToolContext) -> ToolResult:
        subagents = context.subagents
        if subagents is None:
            raise ToolFailed("Subagents are not available here.")
        tasks = _tasks(arguments, subagents.most)

        def ended(number: int, report: Report) -> None:
            context.progress(f"Task {number + 1} of {len(tasks)}: {report.outcome}\n")

        try:
            untrusted = await sources(context.state)
            reports = await subagents.work(tasks, arguments.toolsets, untrusted, ended)
        except NoSubagents as error:
            raise RetryWithHint(str(error)) from None
        # Untrusted data that a subagent has read taints this session too.
        read = sorted({source for report in reports for source in report.untrusted})
        for source in read:
            await taint(context.state, source)
        text = _render(reports)
        failed = all(each.outcome != "completed" for each in reports)
        return ToolResult(fenced(text, " and ".join(read)) if read else text, is_error=failed)


def _tasks(arguments: DelegateTaskArguments, most: int) -> list[Task]:
    given = [Task(each.goal, each.context) for each in arguments.tasks]
    if bool(given) is bool(arguments.goal.strip()):
        raise RetryWithHint("Give either goal, or tasks with a goal each.")
    if len(given) > most:
        raise RetryWithHint(f"At most {most} tasks can be handed over at once.")
    if given and arguments.context.strip():
        raise RetryWithHint("Give each task its own context.")
    return given or [Task(arguments.goal, arguments.context)]


def _render(reports: Sequence[Report]) -> str:
    if len(reports) == 1:
        return _cut(_titled(reports[0], ""), MAX_CHARS)
    each = MAX_CHARS // len(reports) - len("\n\n")
    titled = [
        _titled(report, f"# Task {number}: {report.outcome}\n")
        for number, report in enumerate(reports, 1)
    ]
    return "\n\n".join(_cut(text, each) for text in titled)


def _titled(report: Report, title: str) -> str:
    text = report.text.strip() or "It gave no answer."
    if report.outcome == "completed" or title:
        return f"{title}{text}"
    return f"The task ended: {report.outcome}.\n{text}"


def _cut(text: str, most: int) -> str:
    kept = most - _NOTE_CHARS
    return text if len(text) <= most else ends(text, kept * 2 // 3, kept // 3)
