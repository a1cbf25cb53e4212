"""One question and its answer, for people and for scripts."""

import asyncio
import signal
import sys
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

from hermes.agent.v1.turn_event_pb2 import (
    APPROVAL_DECISION_NOBODY,
    ApprovalRequested,
    ToolFinished,
    ToolStarted,
    TurnEvent,
    TurnFinished,
)
from hermes.common.v1.content_pb2 import MessageFile
from hermes.gateway.v1.conversation_pb2 import ConverseResponse
from services.cli.chat.dialogue import Dialogue
from services.cli.chat.tool_view import without_marks
from services.cli.chat.turn_view import TurnView, shortfall
from services.cli.console import complain
from services.validation import json_object

NOBODY = "(Nobody is there to answer. Decide yourself, and state your assumptions.)"


class OneShot:
    """Asks a question, follows the turn to its end, and records the result."""

    def __init__(self, view: TurnView | None, *, is_command: bool = False) -> None:
        """Take whether the question is a command for the sandbox, whose output is the answer."""
        self._view = view
        self._is_command = is_command
        self._shows_notices = view is not None and (sys.stdout.isatty() or sys.stderr.isatty())
        self._session_id = self._turn_id = self._message_id = ""
        self._turn: TurnFinished | None = None
        self._reply: ConverseResponse.Reply | None = None
        self._started: dict[str, ToolStarted] = {}
        self._finished: dict[str, ToolFinished] = {}

    async def ask(
        self, dialogue: Dialogue, question: str, files: Sequence[MessageFile] = ()
    ) -> None:
        """Ask, and return when the turn has ended; Ctrl-C interrupts it."""
        self._message_id = dialogue.say(question, files=files)
        async with aclosing(dialogue.responses()) as responses:
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGINT, dialogue.interrupt)
            async for response in responses:
                self._take(dialogue, response)
                if self._turn is not None or self._reply is not None:
                    return

    def add(self, event: TurnEvent) -> None:
        match event.WhichOneof("kind"):
            case "tool_started":
                self._started[event.tool_started.call_id] = event.tool_started
            case "tool_finished":
                self._finished[event.tool_finished.call_id] = event.tool_finished
            case "turn_finished":
                self._turn = event.turn_finished
            case "notice" if not self._shows_notices:
                complain(event.notice.text)
            case _:
                pass
        if self._view is not None:
            self._view.show(event)

    @property
    def failure(self) -> str:
        """Why there is no answer, in one line; empty if there is one."""
        if self._reply is not None:
            return self._reply.text if self._reply.is_error else ""
        return "the turn did not end" if self._turn is None else shortfall(self._turn)[0]

    @property
    def command(self) -> ToolFinished | None:
        """How the command ended; None if it did not, or if the question is none."""
        return next(iter(self._finished.values()), None) if self._is_command else None

    @property
    def was_interrupted(self) -> bool:
        return self._turn is not None and self._turn.HasField("cancelled")

    @property
    def reply(self) -> str:
        return "" if self._reply is None or self._reply.is_error else self._reply.text

    def as_json(self) -> dict[str, Any]:
        """Return the turn, or the reply of a slash command, as one JSON object."""
        turn = self._turn or TurnFinished()
        answers = (
            self.reply,
            "" if self.command is None else output_of(self.command),
            turn.completed.answer,
            turn.cancelled.partial_answer,
            turn.limit_reached.partial_answer,
        )
        counts = ("prompt_tokens", "completion_tokens", "cached_tokens", "cost_micro_usd")
        return {
            "session_id": self._session_id,
            "turn_id": self._turn_id,
            "answer": next(filter(None, answers), ""),
            "tool_calls": [self._call(started) for started in self._started.values()],
            "usage": {name: getattr(turn.usage, name) for name in counts},
        }

    def _call(self, started: ToolStarted) -> dict[str, Any]:
        finished = self._finished.get(started.call_id, ToolFinished(is_error=True))
        arguments = json_object(started.arguments_json)
        return {
            "name": started.name,
            "arguments": started.arguments_json if arguments is None else arguments,
            "is_error": finished.is_error,
            "exit_code": finished.exit_code if finished.HasField("exit_code") else None,
            "backend": finished.backend or None,
            "isolation": finished.isolation or None,
            "sandbox_id": finished.sandbox_id or None,
            "duration_ms": finished.duration.ToMilliseconds(),
        }

    def _take(self, dialogue: Dialogue, response: ConverseResponse) -> None:
        match response.WhichOneof("kind"):
            case "opened":
                self._session_id = response.opened.session_id
            case "accepted" if response.accepted.message_id == self._message_id:
                self._turn_id = response.accepted.turn_id
            case "reply" if response.reply.message_id == self._message_id:
                self._reply = response.reply
                self._session_id = response.reply.session_id or self._session_id
            case "event" if response.event.turn_id == self._turn_id:
                for event in response.event.events:
                    self.add(event)
                _answer(dialogue)
            case _:
                pass


def output_of(command: ToolFinished) -> str:
    """Return what a command wrote, without the remarks for the model."""
    text = without_marks(command.preview)
    text = text.removesuffix(f"[exit code {command.exit_code}]").rstrip("\n")
    return "" if text == "[no output]" else text


def _answer(dialogue: Dialogue) -> None:
    """Decline questions, as nobody is there to answer."""
    while (question := dialogue.question) is not None:
        if isinstance(question.asked, ApprovalRequested):
            complain(f"denied, because nobody can approve it here: “{question.asked.subject}”")
            dialogue.decide(question.id, APPROVAL_DECISION_NOBODY)
        else:
            complain(f"nobody can answer here: “{question.asked.question}”")
            dialogue.answer(question.id, NOBODY)
