"""What an editor is shown of a turn: text, thoughts, tool calls with their places, and the plan."""

import posixpath
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import monotonic
from typing import Any, cast

import acp
from acp.schema import (
    ContentToolCallContent,
    FileEditToolCallContent,
    ToolCallLocation,
    ToolCallStart,
    ToolKind,
    UsageUpdate,
)
from msgspec import Struct

from hermes.agent.v1.turn_event_pb2 import ToolFinished, ToolStarted, TurnEvent, UsageReported
from services.cli.chat.tool_view import arguments_of, described, todo_items, without_marks

WORKSPACE = "/workspace"
PROGRESS_S = 0.2
"""How often the output of a running call is sent at most."""
OUTPUT_CHARS = 4_000
"""How much of the output of a running call is shown; the last of it."""

_KINDS: dict[str, ToolKind] = {
    **dict.fromkeys(("read_file", "list_directory", "skill_view", "vision_analyze"), "read"),
    **dict.fromkeys(("write_file", "patch"), "edit"),
    **dict.fromkeys(("search_files", "session_search", "skills_list"), "search"),
    **dict.fromkeys(("terminal", "process", "execute_code"), "execute"),
    **dict.fromkeys(("web_search", "web_extract"), "fetch"),
    **dict.fromkeys(("delegate_task", "mixture_of_agents"), "think"),
}
_PLAN_STATES = {" ": "pending", ">": "in_progress", "x": "completed"}
_FENCE = re.compile(r"`{3,}")

Content = Sequence[ContentToolCallContent | FileEditToolCallContent]


class Folder(Struct, frozen=True):
    """The folder of a session, as the editor names it."""

    path: Path
    is_mounted: bool
    """Whether it is the session's /workspace; else that is elsewhere."""
    why_not: str = ""

    def place(self, path: str) -> str | None:
        """Return where the editor has a path of the sandbox; None: nowhere."""
        inside = posixpath.relpath(posixpath.join(WORKSPACE, path), WORKSPACE)
        if not self.is_mounted or inside == ".." or inside.startswith("../"):
            return None
        return str(self.path / inside)

    def inside(self, path: Path) -> str | None:
        """Return where the sandbox has a path of the editor; None: nowhere."""
        if not self.is_mounted or not path.is_relative_to(self.path):
            return None
        return posixpath.join(WORKSPACE, path.relative_to(self.path).as_posix())


class _Text(Struct):
    """How much of a step's text is sent; snapshots and whole texts repeat earlier parts."""

    step: int = 0
    sent: int = 0
    is_whole: bool = False

    def new(self, step: int, offset: int, text: str) -> str:
        """Return the new part, after an empty line if text of another step was sent."""
        gap = ""
        if step != self.step:
            gap = "\n\n" * bool(self.sent)
            self.step, self.sent, self.is_whole = step, 0, False
        new = text[max(0, self.sent - offset) :]
        self.sent = max(self.sent, offset + len(text))
        return gap + new if new else ""

    def restart(self) -> str:
        """Begin an unfinished step again; return what parts the old text from the new."""
        if self.is_whole:
            return ""
        gap = "\n\n" * bool(self.sent)
        self.sent = 0
        return gap


class _Call(Struct):
    arguments: dict[str, Any]
    output: str = ""
    shown_at: float = 0.0


class TurnUpdates:
    """The updates for the events of one turn."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._attempt = 0
        self._answer, self._thoughts = _Text(), _Text()
        self._calls: dict[str, _Call] = {}
        self._has_begun = False

    def of(self, event: TurnEvent) -> Iterator[Any]:
        """Yield the updates for an event."""
        if event.attempt != self._attempt:
            self._attempt = event.attempt
            yield from self._restart()
        match event.WhichOneof("kind"):
            case "turn_started":
                self._has_begun = True
            case "text_delta":
                delta = event.text_delta
                yield from answer(self._answer.new(delta.step, delta.offset, delta.text))
            case "reasoning_delta":
                delta = event.reasoning_delta
                yield from thought(self._thoughts.new(delta.step, delta.offset, delta.text))
            case "text_snapshot":
                so_far = event.text_snapshot
                yield from thought(self._thoughts.new(so_far.step, 0, so_far.reasoning))
                yield from answer(self._answer.new(so_far.step, 0, so_far.text))
            case "text_finished":
                whole = event.text_finished
                yield from answer(self._answer.new(whole.step, 0, whole.text))
                self._answer.is_whole = self._thoughts.is_whole = True
            case "turn_finished" if not self._has_begun:
                # A message that joined another turn has no other answer.
                yield from answer(event.turn_finished.completed.answer)
            case _:
                yield from self._remark(event)
                yield from self._tool(event)

    def _remark(self, event: TurnEvent) -> Iterator[Any]:
        match event.WhichOneof("kind"):
            case "notice" if event.notice.lasts:
                yield from answer(f"\n\n{event.notice.text}\n\n")
            case "notice":
                if not event.notice.keeps_text:
                    yield from self._restart()
                yield from thought(f"\n\n{event.notice.text}\n\n")
            case "compressed":
                yield from thought("\n\nThe conversation was compressed.\n\n")
            case "usage_reported":
                yield from usage(event.usage_reported)
            case _:
                pass

    def _restart(self) -> Iterator[Any]:
        yield from answer(self._answer.restart())
        self._thoughts.restart()

    def _tool(self, event: TurnEvent) -> Iterator[Any]:
        match event.WhichOneof("kind"):
            case "tool_started" if event.tool_started.name != "todo":
                started = event.tool_started
                self._calls[started.call_id] = _Call(arguments_of(started.arguments_json))
                yield start_of(started, self._folder)
            case "tool_progress" if call := self._calls.get(event.tool_progress.call_id):
                call.output = (call.output + event.tool_progress.text)[-OUTPUT_CHARS:]
                if monotonic() - call.shown_at >= PROGRESS_S:
                    call.shown_at = monotonic()
                    yield acp.update_tool_call(
                        event.tool_progress.call_id, content=[preview(call.output)]
                    )
            case "tool_finished" if event.tool_finished.name == "todo":
                yield from plan(event.tool_finished.preview)
            case "tool_finished" if call := self._calls.pop(event.tool_finished.call_id, None):
                yield end_of(event.tool_finished, call.arguments, self._folder)
            case _:
                pass


def answer(text: str) -> Iterator[Any]:
    """Yield the update with text of the answer, if there is any."""
    if text:
        yield acp.update_agent_message_text(text)


def thought(text: str) -> Iterator[Any]:
    """Yield the update with a thought, if there is any."""
    if text:
        yield acp.update_agent_thought_text(text)


def usage(reported: UsageReported) -> Iterator[Any]:
    """Yield how full the model's context is, where its size is known."""
    used = reported.usage
    if reported.window_tokens:
        yield UsageUpdate(
            session_update="usage_update",
            used=used.prompt_tokens + used.completion_tokens,
            size=reported.window_tokens,
        )


def plan(preview: str) -> Iterator[Any]:
    """Yield the plan of the `todo` tool's result."""
    items = todo_items(preview)
    entries = [
        acp.plan_entry(text, status=cast("Any", _PLAN_STATES[sign]))
        for sign, text in items
        if sign in _PLAN_STATES
    ]
    if items:
        yield acp.update_plan(entries)


def start_of(started: ToolStarted, folder: Folder) -> ToolCallStart:
    """Return the update for a call that begins."""
    arguments = arguments_of(started.arguments_json)
    place = folder.place(str(arguments["path"])) if arguments.get("path") else None
    line = arguments.get("offset") if started.name == "read_file" else None
    return acp.start_tool_call(
        started.call_id,
        title_of(started.name, started.arguments_json),
        kind=kind_of(started.name),
        status="in_progress",
        locations=[ToolCallLocation(path=place, line=line)] if place else None,
        raw_input=arguments,
    )


def end_of(finished: ToolFinished, arguments: dict[str, Any], folder: Folder) -> Any:
    """Return the update for a call that has ended."""
    shown: Content = ()
    if not finished.is_error:
        if finished.name == "patch":
            shown = [*_diffs(finished.preview, folder)]
        elif finished.name == "write_file":
            path = str(arguments.get("path", ""))
            shown = [acp.tool_diff_content(_name(path, folder), str(arguments.get("content", "")))]
    return acp.update_tool_call(
        finished.call_id,
        status="failed" if finished.is_error else "completed",
        content=shown or ([preview(finished.preview)] if finished.preview.strip() else None),
    )


def title_of(tool: str, arguments_json: str) -> str:
    """Return the title of a call: its command, or its tool and what that is given."""
    if tool == "clarify":
        return str(arguments_of(arguments_json).get("question", tool))
    told = described(arguments_json)
    return told if tool == "terminal" and told else f"{tool} {told}".strip()


def kind_of(tool: str) -> ToolKind:
    """Return the kind of a tool's calls."""
    return _KINDS.get(tool, "other")


def preview(text: str) -> ContentToolCallContent:
    """Return the result of a call for an editor, without the marks that are for the model."""
    return fenced(without_marks(text))


def fenced(text: str) -> ContentToolCallContent:
    """Return text for an editor that shows Markdown as it is."""
    fence = max(("```", *_FENCE.findall(text)), key=len)
    fence = f"{fence}`" if fence in text else fence
    return acp.tool_content(acp.text_block(f"{fence}\n{text.rstrip()}\n{fence}"))


def _name(path: str, folder: Folder) -> str:
    return folder.place(path) or posixpath.join(WORKSPACE, path)


def _diffs(preview: str, folder: Folder) -> Iterator[FileEditToolCallContent]:
    """Yield the hunks of a unified diff, each as its lines before and after."""
    before, after = list[str](), list[str]()
    was = name = ""

    def hunk() -> Iterator[FileEditToolCallContent]:
        if before or after:
            old = "\n".join(before) if was != "/dev/null" else None
            yield acp.tool_diff_content(_name(name, folder), "\n".join(after), old)
        before.clear()
        after.clear()

    lines = preview.splitlines()
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        sign, text = line[:1], line[1:]
        if line.startswith("--- ") and following.startswith("+++ "):
            yield from hunk()
            was = name = line[4:].removeprefix("a/")
        elif line.startswith("+++ ") and not before and not after:
            name = name if line[4:] == "/dev/null" else line[4:].removeprefix("b/")
        elif line.startswith("@@"):
            yield from hunk()
        elif name and sign in (" ", "-", "+"):
            before.extend([text] if sign != "+" else ())
            after.extend([text] if sign != "-" else ())
    yield from hunk()
