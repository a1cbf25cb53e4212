"""One question and its answer."""

import asyncio
import signal
from contextlib import aclosing
from typing import Protocol

from hermes.agent.v1.turn_event_pb2 import APPROVAL_DECISION_DENY, TurnEvent
from hermes.gateway.v1.conversation_pb2 import ConverseResponse
from services.cli.console import complain
from services.cli.dialogue import Dialogue
from services.cli.transcript import Transcript
from services.lifecycle import Workers

NOBODY = "(Nobody is there to answer: decide yourself, and say what you have assumed.)"


class EventView(Protocol):
    """Shows a turn while it happens."""

    def show(self, event: TurnEvent) -> None:
        """Show one event."""
        ...


class OneShot:
    """Asks, follows the turn to its end, and keeps what happened."""

    def __init__(self, view: EventView | None) -> None:
        self.transcript = Transcript()
        self._view = view
        self._message_id = ""

    async def ask(self, dialogue: Dialogue, question: str) -> None:
        """Ask, and return when all is said; Ctrl-C interrupts it."""
        self._message_id = await dialogue.say(question)
        async with Workers() as workers, aclosing(dialogue.responses()) as responses:
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(
                signal.SIGINT, lambda: workers.start("interrupt", dialogue.interrupt())
            )
            async for response in responses:
                await self._take(dialogue, response)
                if self.transcript.is_over:
                    return

    async def _take(self, dialogue: Dialogue, response: ConverseResponse) -> None:
        match response.WhichOneof("kind"):
            case "opened":
                self.transcript.session_id = response.opened.session_id
            case "accepted" if response.accepted.message_id == self._message_id:
                self.transcript.turn_id = response.accepted.turn_id
            case "reply" if response.reply.message_id == self._message_id:
                self.transcript.close(response.reply)
            case "event" if response.event.turn_id == self.transcript.turn_id:
                for event in response.event.events:
                    await self._follow(dialogue, event)
            case _:
                pass

    async def _follow(self, dialogue: Dialogue, event: TurnEvent) -> None:
        self.transcript.add(event)
        if self._view is not None:
            self._view.show(event)
        if event.HasField("approval_requested"):
            asked = event.approval_requested
            complain(f"nobody is here to allow “{asked.subject}”; it was denied")
            await dialogue.decide(asked.approval_id, APPROVAL_DECISION_DENY)
        if event.HasField("clarification_requested"):
            question = event.clarification_requested
            complain(f"nobody is here to answer “{question.question}”")
            await dialogue.answer(question.clarification_id, NOBODY)
