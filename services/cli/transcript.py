"""What happened in a turn, gathered from its events for scripts."""

import json
from typing import Any

from msgspec import Struct, field

from hermes.agent.v1.turn_event_pb2 import (
    Cancelled,
    ToolFinished,
    ToolStarted,
    TurnEvent,
    TurnFinished,
)
from hermes.gateway.v1.conversation_pb2 import ConverseResponse


class Transcript(Struct):
    """One turn, or the reply to a slash command, as `--json` shows it."""

    session_id: str = ""
    turn_id: str = ""
    finished: TurnFinished | None = None
    reply: ConverseResponse.Reply | None = None
    _started: dict[str, ToolStarted] = field(default_factory=dict[str, ToolStarted])
    _finished: dict[str, ToolFinished] = field(default_factory=dict[str, ToolFinished])

    def add(self, event: TurnEvent) -> None:
        """Take note of an event."""
        match event.WhichOneof("kind"):
            case "tool_started":
                self._started[event.tool_started.call_id] = event.tool_started
            case "tool_finished":
                self._finished[event.tool_finished.call_id] = event.tool_finished
            case "turn_finished":
                self.finished = event.turn_finished
            case _:
                pass

    def close(self, reply: ConverseResponse.Reply) -> None:
        """Take note of what a slash command has to say."""
        self.reply = reply
        self.session_id = reply.session_id or self.session_id

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come."""
        return self.finished is not None or self.reply is not None

    @property
    def failure(self) -> str:
        """Why there is no answer, in one line; empty when there is one."""
        if self.reply is not None:
            return self.reply.text if self.reply.is_error else ""
        finished = self.finished
        if finished is None:
            return "the turn did not end"
        match finished.WhichOneof("outcome"):
            case "completed":
                return ""
            case "failed":
                return finished.failed.failure.message
            case "cancelled":
                return interrupted(finished.cancelled)
            case "limit_reached":
                return finished.limit_reached.message
            case _:
                return finished.needs_review.message

    @property
    def was_interrupted(self) -> bool:
        """Whether a person has stopped the turn."""
        return self.finished is not None and self.finished.HasField("cancelled")

    @property
    def answer(self) -> str:
        """The answer, or what there was of it."""
        if self.reply is not None:
            return "" if self.reply.is_error else self.reply.text
        if self.finished is None:
            return ""
        return (
            self.finished.completed.answer
            or self.finished.cancelled.partial_answer
            or self.finished.limit_reached.partial_answer
        )

    def as_json(self) -> dict[str, Any]:
        """The turn as one JSON object."""
        usage = None if self.finished is None else self.finished.usage
        return {
            "session_id": self.session_id,
            "turn_id": self.turn_id,
            "answer": self.answer,
            "tool_calls": [self._call(started) for started in self._started.values()],
            "usage": {
                "prompt_tokens": usage.prompt_tokens if usage else 0,
                "completion_tokens": usage.completion_tokens if usage else 0,
                "cached_tokens": usage.cached_tokens if usage else 0,
                "cost_micro_usd": usage.cost_micro_usd if usage else 0,
            },
        }

    def _call(self, started: ToolStarted) -> dict[str, Any]:
        finished = self._finished.get(started.call_id)
        has_code = finished is not None and finished.HasField("exit_code")
        return {
            "name": started.name,
            "arguments": _parsed(started.arguments_json),
            "is_error": finished.is_error if finished else True,
            "exit_code": finished.exit_code if finished and has_code else None,
            "backend": (finished.backend if finished else "") or None,
            "isolation": (finished.isolation if finished else "") or None,
            "sandbox_id": (finished.sandbox_id if finished else "") or None,
            "duration_ms": finished.duration.ToMilliseconds() if finished else 0,
        }


def _parsed(arguments_json: str) -> Any:
    try:
        return json.loads(arguments_json)
    except (ValueError, RecursionError):
        return arguments_json


def interrupted(cancelled: Cancelled) -> str:
    """What is said of a turn that was stopped, with what may have been left."""
    return ": ".join(filter(None, ("interrupted", cancelled.message)))
