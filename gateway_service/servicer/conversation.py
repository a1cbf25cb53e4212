"""ConversationService."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from contextlib import aclosing
from functools import partial
from typing import Any

import grpc.aio
from msgspec import Struct

from gateway_service.chats.sessions import Sessions, client_key
from gateway_service.clients import AgentClient
from gateway_service.commands.base import Answer, Chat, CommandContext, list_offered
from gateway_service.commands.registry import AsTurn, dispatch, parse
from gateway_service.commands.skills import command_names, list_skills_or_none
from gateway_service.messages import CLI, Source, TurnRequest
from gateway_service.servicer import wire
from gateway_service.servicer.wire import Outgoing
from gateway_service.turns.notifications import TerminalNotifications
from gateway_service.turns.questions import BUTTONS
from gateway_service.turns.turn_starter import AcceptedTurn, TurnStarter
from hermes.agent.v1.approval_pb2 import AnswerClarificationRequest
from hermes.agent.v1.turn_event_pb2 import APPROVAL_DECISION_NOBODY
from hermes.gateway.v1 import conversation_pb2_grpc
from hermes.gateway.v1.conversation_pb2 import (
    ConverseRequest,
    ConverseResponse,
    ListCommandsRequest,
    ListCommandsResponse,
)
from services.errors import HermesError, InvalidArgument, NotFound
from services.home.paths import DEFAULT_PROFILE
from services.home.project_notes import NotesAbove
from services.ids import new_id
from services.lifecycle import Workers
from services.rpc.auth import Identity, allow
from services.telemetry.logs import bind

Context = grpc.aio.ServicerContext[Any, Any]

POLICY = allow(
    "hermes.gateway.v1.ConversationService",
    dict.fromkeys(("Converse", "ListCommands"), (Identity.OPERATOR,)),
)

UNNAMED = "operator"
_DECISIONS = {decision for _, decision, _ in BUTTONS} | {APPROVAL_DECISION_NOBODY}


class ConversationContext(Struct, frozen=True):
    """Collaborators of conversations."""

    agent: AgentClient
    sessions: Sessions
    turns: TurnStarter
    notifications: TerminalNotifications
    commands: CommandContext


class ConversationServicer(conversation_pb2_grpc.ConversationServiceServicer):
    """Serves connected clients."""

    def __init__(self, context: ConversationContext) -> None:
        self._context = context

    async def Converse(
        self, request_iterator: AsyncIterator[ConverseRequest], context: Context
    ) -> AsyncGenerator[ConverseResponse]:
        first = await anext(aiter(request_iterator), None)
        if first is None or not first.HasField("open"):
            raise InvalidArgument("a conversation begins with open", fields={"open": "is missing"})
        wire.check_open(first.open)
        outgoing = Outgoing()
        session_id, resumed = await self._session(first.open)
        async with Workers(lambda failure: outgoing.end(failure.error)) as workers:
            conversation = _Conversation(self._context, first.open, session_id, outgoing, workers)
            workers.start("conversation", conversation.run(request_iterator, resumed=resumed))
            async with aclosing(outgoing.responses()) as responses:
                async for response in responses:
                    yield response

    async def ListCommands(
        self, request: ListCommandsRequest, context: Context
    ) -> ListCommandsResponse:
        commands, profile = self._context.commands, request.profile or DEFAULT_PROFILE
        typed = Chat(profile, "", Source(platform=CLI, chat_id="", user_name=UNNAMED), "")
        skills = await list_skills_or_none(commands, profile)
        return wire.list_commands(
            list_offered(commands.commands, typed), command_names(skills, commands.commands)
        )

    async def _session(self, opening: ConverseRequest.Open) -> tuple[str, bool]:
        profile, sessions = opening.profile or DEFAULT_PROFILE, self._context.sessions
        session_id: str | None = opening.session_id
        if session_id:
            return await sessions.find(profile, session_id), True
        if opening.latest and (session_id := await sessions.latest(profile, CLI)):
            return session_id, True
        return await sessions.begin(profile), False


class _Conversation:
    """One stream: a task that reads it, and one for each turn that it follows.

    Requests are handled in order: a turn has started before the next request is read.
    """

    def __init__(
        self,
        context: ConversationContext,
        opening: ConverseRequest.Open,
        session_id: str,
        outgoing: Outgoing,
        workers: Workers,
    ) -> None:
        self._context = context
        self._profile = opening.profile or DEFAULT_PROFILE
        self._opening = opening
        notes = opening.context_file
        self._notes = NotesAbove(notes.path, notes.text) if notes.text else None
        self._session_id = session_id
        self._outgoing = outgoing
        self._workers = workers
        self._turns: set[asyncio.Task[None]] = set()
        self._ended: set[str] = set()
        self._noted = ""
        """The session that was already given the context file of the client's folder."""

    async def run(self, requests: AsyncIterator[ConverseRequest], *, resumed: bool) -> None:
        """Serve the client until its requests end and the turns that it follows have ended."""
        try:
            await self._outgoing.say(wire.opened(self._session_id, resumed=resumed))
            for watched in self._opening.watched_turns:
                self._follow(watched.turn_id, watched.after_sequence)
            if self._opening.takes_news:
                self._workers.start("notifications", self._notify())
            async for request in requests:
                await self._take(request)
            if self._turns:
                await asyncio.wait(self._turns)
            await self._context.agent.end_session(self._session_id, self._profile)
        except HermesError as error:
            self._outgoing.end(error)
        else:
            self._outgoing.end()

    async def _take(self, request: ConverseRequest) -> None:
        match request.WhichOneof("kind"):
            case "user_message":
                await self._message(request.user_message)
            case "interrupt":
                named = request.interrupt.turn_id
                interrupt = self._context.agent.interrupt(self._session_id, self._profile, named)
                await self._attempt(interrupt)
            case "approval_answer":
                answer = request.approval_answer
                if answer.decision not in _DECISIONS:
                    wanted = {"decision": "ONCE, SESSION, ALWAYS, DENY or NOBODY"}
                    raise InvalidArgument("not a decision", fields=wanted)
                decided = (answer.approval_id, self._profile, answer.decision, self._source().user)
                await self._attempt(self._context.agent.decide(*decided))
            case "clarification_answer":
                await self._attempt(self._answer(request.clarification_answer))
            case _:
                raise InvalidArgument("a conversation is opened once", fields={"open": "is first"})

    async def _answer(self, answer: ConverseRequest.ClarificationAnswer) -> None:
        given = AnswerClarificationRequest(
            profile=self._profile,
            clarification_id=answer.clarification_id,
            answer=answer.answer,
            answered_by=self._source().user,
        )
        if not await self._context.agent.answer(given):
            raise NotFound("no question waits for this answer")

    async def _message(self, message: ConverseRequest.UserMessage) -> None:
        wire.check_message(message)
        skill = ""
        if command := parse(message.text):
            outcome = await self._obey(message.message_id, *command)
            if not isinstance(outcome, AsTurn):
                await self._reply(message.message_id, outcome)
                return
            skill = outcome.skill
        turn = self._turn(message, skill)
        begun = await self._context.turns.begin(turn, message.message_id)
        try:
            await self._announce(message.message_id, begun)
        except BaseException:  # the client has disconnected
            if begun.is_open:
                self._context.turns.settle(begun.turn)
            raise
        if begun.refusal:
            await self._context.turns.close(begun.turn.turn_id)
            return
        events = self._follow(begun.turn.turn_id, 0)
        if begun.is_open:
            events.add_done_callback(partial(self._hand_over, begun.turn))

    async def _announce(self, message_id: str, begun: AcceptedTurn) -> None:
        turn = begun.turn
        if turn.session_id != self._session_id:
            # The client repeats a message of a broken stream, before it learned its session.
            self._session_id = turn.session_id
            await self._outgoing.say(wire.opened(turn.session_id, resumed=True))
        if begun.refusal:
            await self._outgoing.say(wire.reply(message_id, begun.refusal, is_error=True))
            return
        self._noted = turn.session_id
        accepted = ConverseResponse.Accepted(
            message_id=message_id, turn_id=turn.turn_id, remark=begun.remark
        )
        await self._outgoing.say(ConverseResponse(accepted=accepted))

    async def _obey(self, message_id: str, name: str, arguments: str) -> Answer | AsTurn:
        event_id = f"{CLI}:{message_id}"
        key = client_key(self._session_id)
        chat = Chat(self._profile, self._session_id, self._source(), event_id, key=key)
        return await dispatch(self._context.commands, chat, name, arguments)

    async def _reply(self, message_id: str, answer: Answer) -> None:
        if answer.session_id:
            sessions = self._context.sessions
            await sessions.remember(self._profile, answer.session_id, self._session_id)
            self._session_id = answer.session_id
        await self._outgoing.say(wire.answered(message_id, answer))

    def _hand_over(self, turn: TurnRequest, events: asyncio.Task[None]) -> None:
        """If the client disconnects while its turn runs, follow the turn for it."""
        if turn.turn_id in self._ended:
            self._ended.remove(turn.turn_id)
        elif events.cancelled() or events.exception() is not None:
            self._context.turns.settle(turn)

    async def _forward(self, turn_id: str, after: int) -> None:
        """Forward a turn's events to the last one, and then count its message as answered."""
        watching = self._context.agent.watch(turn_id, self._profile, after)
        async with aclosing(watching) as batches:
            async for events in batches:
                happened = ConverseResponse.Event(turn_id=turn_id, events=events)
                if events[-1].HasField("turn_finished"):
                    await self._end(turn_id, ConverseResponse(event=happened))
                else:
                    await self._outgoing.say(ConverseResponse(event=happened))

    async def _end(self, turn_id: str, last: ConverseResponse) -> None:
        self._ended.add(turn_id)
        try:
            await self._outgoing.say(last)
        finally:
            # Many clients disconnect as soon as the turn ends, some just before.
            self._context.turns.close_later(turn_id)

    async def _notify(self) -> None:
        notifications = self._context.notifications
        with notifications.reading(self._profile, lambda: self._session_id) as reader:
            while True:
                reader.woken.clear()
                while (part := await notifications.take(reader)) is not None:
                    await self._outgoing.say(wire.notification(part))
                    await notifications.settle(part)
                await reader.woken.wait()

    def _follow(self, turn_id: str, after: int) -> asyncio.Task[None]:
        with bind(turn_id=turn_id, session_id=self._session_id):
            turn = self._workers.start(f"events of {turn_id}", self._forward(turn_id, after))
        self._turns.add(turn)
        turn.add_done_callback(self._turns.discard)
        return turn

    async def _attempt(self, call: Awaitable[object]) -> None:
        """Do what the client asked for; a failure is sent as an answer and ends nothing."""
        try:
            await call
        except HermesError as error:
            await self._outgoing.say(wire.reply("", error.message, is_error=True))

    def _turn(self, message: ConverseRequest.UserMessage, skill: str) -> TurnRequest:
        uploads = wire.uploads(message)
        return TurnRequest(
            turn_id=new_id("trn"),
            profile=self._profile,
            session_id=self._session_id,
            source=self._source(),
            text=message.text,
            files=tuple(upload.file for upload in uploads),
            uploads=uploads or None,
            skill=skill,
            workdir=self._opening.workdir,
            sandbox_template=self._opening.sandbox_template,
            skip_context_files=self._opening.skip_context_files,
            notes_above=None if self._noted == self._session_id else self._notes,
        )

    def _source(self) -> Source:
        user_name = self._opening.user_name or UNNAMED
        return Source(platform=CLI, chat_id=self._session_id, user_name=user_name)
