"""A conversation with the gateway that survives lost connections without losses or repeats."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import grpc
import grpc.aio
from msgspec import Struct

from hermes.agent.v1.turn_event_pb2 import ApprovalDecision, TurnEvent
from hermes.common.v1.content_pb2 import MessageFile
from hermes.gateway.v1.conversation_pb2 import ConverseRequest, ConverseResponse
from hermes.gateway.v1.conversation_pb2_grpc import ConversationServiceStub
from services.cli.chat.questions import Question, asked_in, ended_in
from services.errors import Reason, reason_of
from services.ids import new_id
from services.rpc.streams import Requests, Stream, resume

RECONNECT_S = 60.0
IDLE = "> "


class Choices(Struct, frozen=True):
    """What a reply offers; nothing if it is empty."""

    offered: Sequence[ConverseResponse.Choice] = ()

    @property
    def lines(self) -> str:
        width = len(str(len(self.offered)))
        return "\n".join(f"{n:>{width}}. {one.label}" for n, one in enumerate(self.offered, 1))

    @property
    def label(self) -> str:
        """The label before the answer, or before any message if nothing is offered."""
        return f"number (1-{len(self.offered)}) or message > " if self.offered else IDLE

    def message(self, said: str) -> str:
        """The message of the chosen number; anything else is a message itself."""
        number = int(said) if said.isdecimal() and len(said) < 3 else 0
        return self.offered[number - 1].message if 0 < number <= len(self.offered) else said


class Dialogue:
    """One conversation; iterate `responses` while sending."""

    def __init__(self, channel: grpc.aio.Channel, opening: ConverseRequest.Open) -> None:
        self._stub = ConversationServiceStub(channel)
        self._opening = opening
        self._requests = Requests[ConverseRequest]()
        self._turns = dict[str, int]()
        """Open turns, oldest first, with the last sequence received of each."""
        self._questions: dict[str, Question] = {}
        """Open questions, oldest first."""
        self.choices = Choices()
        """What the last reply offers, until something is said."""
        self._unheard: dict[str, tuple[str | None, ConverseRequest]] = {}
        """Unacknowledged messages, and decisions and interrupts with their turns."""

    @property
    def question(self) -> Question | None:
        return next(iter(self._questions.values()), None)

    def waits_for(self, question: Question) -> bool:
        return question.id in self._questions

    def say(self, text: str, message_id: str = "", files: Sequence[MessageFile] = ()) -> str:
        """Send a message, slash command or choice; return its id, a new one by default."""
        text, self.choices = self.choices.message(text), Choices()
        message_id = message_id or new_id("msg")
        message = ConverseRequest.UserMessage(message_id=message_id, text=text, files=files)
        self._insist(message_id, None, ConverseRequest(user_message=message))
        return message_id

    def interrupt(self) -> None:
        """Stop the current turn and its commands."""
        turn_id = next(iter(self._turns), "")
        request = ConverseRequest(interrupt=ConverseRequest.Interrupt(turn_id=turn_id))
        self._insist(f"interrupt {turn_id}", turn_id, request)

    def decide(self, approval_id: str, decision: "ApprovalDecision.ValueType") -> None:
        answer = ConverseRequest.ApprovalAnswer(approval_id=approval_id, decision=decision)
        self._answer(approval_id, ConverseRequest(approval_answer=answer))

    def answer(self, clarification_id: str, text: str) -> None:
        answer = ConverseRequest.ClarificationAnswer(clarification_id=clarification_id, answer=text)
        self._answer(clarification_id, ConverseRequest(clarification_answer=answer))

    async def responses(self) -> AsyncGenerator[ConverseResponse]:
        """Yield the gateway's responses across reconnects; raises if it stays away."""
        stream = resume(self._connect, lambda _: False, patience_s=RECONNECT_S, passes=self._passes)
        try:
            async with aclosing(stream) as responses:
                async for response in responses:
                    self._follow(response)
                    yield response
        finally:
            self._requests.end()

    def _opened(self) -> ConverseRequest.Open:
        opening = ConverseRequest.Open()
        opening.CopyFrom(self._opening)
        for turn_id, after_sequence in self._turns.items():
            opening.watched_turns.add(turn_id=turn_id, after_sequence=after_sequence)
        return opening

    def _answer(self, question_id: str, request: ConverseRequest) -> None:
        question = self._questions.pop(question_id, None)
        self._insist(question_id, question.turn_id if question else "", request)

    def _insist(self, key: str, turn_id: str | None, request: ConverseRequest) -> None:
        """Send, and resend after reconnects until the turn has it."""
        self._unheard[key] = (turn_id, request)
        self._requests.send(request)

    def _passes(self, error: grpc.aio.AioRpcError) -> bool:
        reason = reason_of(error)
        if reason is Reason.DATABASE_UNAVAILABLE:
            # Then the messages were refused, and only their author may repeat them.
            return all(turn_id is not None for turn_id, _ in self._unheard.values())
        if error.code() is grpc.StatusCode.UNIMPLEMENTED:
            # A command with only the services that it needs occupies the home until it ends.
            return True
        return reason in (Reason.SERVICE_UNAVAILABLE, Reason.DRAINING)

    def _connect(self) -> Stream[ConverseResponse]:
        self._requests.end()
        insisted = [request for _, request in self._unheard.values()]
        opening = ConverseRequest(open=self._opened())
        self._requests = Requests([opening, *insisted])
        return self._stub.Converse(self._requests)

    def _follow(self, response: ConverseResponse) -> None:
        opening = self._opening
        match response.WhichOneof("kind"):
            case "opened":
                opening.session_id = response.opened.session_id
                opening.latest = False
            case "accepted":
                self._unheard.pop(response.accepted.message_id, None)
                self._turns.setdefault(response.accepted.turn_id, 0)
            case "reply":
                self._unheard.pop(response.reply.message_id, None)
                self.choices = Choices(response.reply.choices)
                opening.session_id = response.reply.session_id or opening.session_id
            case "event":
                for event in response.event.events:
                    self._hear(response.event.turn_id, event)
            case _:
                pass

    def _hear(self, turn_id: str, event: TurnEvent) -> None:
        if turn_id in self._turns and event.sequence:
            self._turns[turn_id] = event.sequence
        if question := asked_in(turn_id, event):
            self._questions[question.id] = question
        ended, _ = ended_in(event)
        self._questions.pop(ended, None)
        self._unheard.pop(ended, None)
        if event.HasField("turn_finished"):
            # Requests for this turn, or for the current one, are outdated.
            self._turns.pop(turn_id, None)
            asked, unheard = self._questions.items(), self._unheard.items()
            self._questions = {key: it for key, it in asked if it.turn_id != turn_id}
            self._unheard = {key: it for key, it in unheard if it[0] not in ("", turn_id)}
