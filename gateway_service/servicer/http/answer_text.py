"""What HTTP clients are told of a turn: its answer as text that only grows, and how it ended."""

from typing import Any

from gateway_service.turns.presenter import outcome_parts
from hermes.agent.v1.turn_event_pb2 import (
    APPROVAL_DECISION_NOBODY,
    ApprovalRequested,
    ToolStarted,
    TurnEvent,
    TurnFinished,
)
from hermes.common.v1.error_pb2 import ErrorReason
from services.errors import HermesError, Reason

ARGUMENT_CHARS = 120
BREAK = "\n\n"
DENIED = "Not run, because nobody can allow it here:"


class AnswerText:
    """Takes a turn's events; returns what to append.

    If the model begins a text anew, after an error for instance, what was sent stays and the new
    text follows as a whole once it is complete.
    """

    def __init__(self) -> None:
        self.text = ""
        self._notes: list[str] = []
        self._asked: dict[str, ApprovalRequested] = {}
        self._step = 0
        self._said = ""
        """What was sent of the step's text."""
        self._is_held = False
        """The step's text is not the one that was sent."""

    def take(self, event: TurnEvent) -> str:
        match event.WhichOneof("kind"):
            case "text_delta":
                delta = event.text_delta
                return self._grow(delta.step, delta.offset, delta.text)
            case "text_snapshot":
                return self._grow(event.text_snapshot.step, 0, event.text_snapshot.text)
            case "text_finished":
                return self._complete(event.text_finished.step, event.text_finished.text)
            case "notice" if event.notice.lasts:
                self._notes.append(event.notice.text)
            case "approval_requested":
                self._asked[event.approval_requested.approval_id] = event.approval_requested
            case "approval_resolved":
                resolved = event.approval_resolved
                asked = self._asked.get(resolved.approval_id)
                if asked is not None and resolved.decision == APPROVAL_DECISION_NOBODY:
                    self._notes.append(f"{DENIED} {asked.tool}: {asked.subject}")
            case _:
                pass
        return ""

    def end(self, finished: TurnFinished) -> str:
        """Return the rest of the answer, with notes."""
        answer, remark = outcome_parts(finished)
        if self.text.rstrip().endswith(answer):
            answer = ""
        more = BREAK.join(filter(None, (answer, remark, *self._notes)))
        return self._append(more) if more else ""

    def whole(self, finished: TurnFinished) -> str:
        """Return the answer alone, without what was said on the way to it."""
        return BREAK.join(filter(None, (*outcome_parts(finished), *self._notes)))

    def _grow(self, step: int, offset: int, text: str) -> str:
        self._enter(step)
        if self._is_held or offset > len(self._said):
            return ""
        whole = self._said[:offset] + text
        if whole.startswith(self._said):
            return self._say(whole)
        self._is_held = not self._said.startswith(whole)
        return ""

    def _complete(self, step: int, text: str) -> str:
        self._enter(step)
        if not text.startswith(self._said):
            self._said = ""
        return self._say(text)

    def _enter(self, step: int) -> None:
        if step != self._step:
            self._step, self._said, self._is_held = step, "", False

    def _say(self, whole: str) -> str:
        new = whole[len(self._said) :]
        begins = not self._said
        self._said = whole
        if not new:
            return ""
        return self._append(new) if begins else self._add(new)

    def _append(self, text: str) -> str:
        return self._add(BREAK + text if self.text else text)

    def _add(self, text: str) -> str:
        self.text += text
        return text


def describe_tool(started: ToolStarted) -> str:
    """Return a line about a tool that starts."""
    arguments = started.arguments_json
    if len(arguments) > ARGUMENT_CHARS:
        arguments = arguments[:ARGUMENT_CHARS] + "…"
    return f"▸ {started.name} {arguments}\n"


def progress(event: TurnEvent) -> str:
    """Return what a client is shown of the work that leads to an answer."""
    match event.WhichOneof("kind"):
        case "reasoning_delta":
            return event.reasoning_delta.text
        case "tool_started":
            return describe_tool(event.tool_started)
        case "tool_finished" if event.tool_finished.is_error:
            return f"✗ {event.tool_finished.name} failed\n"
        case "notice" if not event.notice.lasts:
            return f"{event.notice.text}\n"
        case _:
            return ""


def failure_of(finished: TurnFinished) -> HermesError | None:
    """Return why a turn failed; None if it did not."""
    if not finished.HasField("failed"):
        return None
    failure = finished.failed.failure
    name = ErrorReason.Name(failure.reason).removeprefix("ERROR_REASON_")
    reason = Reason.__members__.get(name, Reason.INTERNAL)
    return HermesError(failure.message or "the turn failed", reason=reason)


def finish_reason(finished: TurnFinished) -> str:
    """Return why a chat completion ended."""
    return "length" if finished.HasField("limit_reached") else "stop"


def chat_usage(finished: TurnFinished) -> dict[str, Any]:
    """Return what a turn used, as chat completions tell it."""
    used = finished.usage
    return {
        "prompt_tokens": used.prompt_tokens,
        "completion_tokens": used.completion_tokens,
        "total_tokens": used.prompt_tokens + used.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": used.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": used.reasoning_tokens},
    }


def response_usage(finished: TurnFinished) -> dict[str, Any]:
    """Return what a turn used, as responses tell it."""
    used = finished.usage
    return {
        "input_tokens": used.prompt_tokens,
        "input_tokens_details": {"cached_tokens": used.cached_tokens},
        "output_tokens": used.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": used.reasoning_tokens},
        "total_tokens": used.prompt_tokens + used.completion_tokens,
    }
