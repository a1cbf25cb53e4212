"""The agent, as the gateway calls it."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import grpc
import grpc.aio
from msgspec import Struct

from gateway_service.clients.calls import explained
from gateway_service.convert import context_file, message_parts, turn_event
from gateway_service.events import Decision, TurnEvent
from gateway_service.messages import COMPRESS, QUEUE, RETRY, STEER, BusyMode, TurnOrder
from hermes.agent.v1 import (
    approval_pb2,
    approval_pb2_grpc,
    catalog_pb2,
    catalog_pb2_grpc,
    session_change_pb2,
    session_pb2,
    session_pb2_grpc,
    turn_event_pb2,
    turn_pb2,
    turn_pb2_grpc,
)
from hermes.common.v1 import origin_pb2
from services.streams import resume


class SessionFacts(Struct, frozen=True):
    """What a person wants to know of a session."""

    session_id: str
    title: str
    message_count: int
    prompt_tokens: int
    completion_tokens: int
    is_busy: bool = False
    """Something of it is under way, such as a turn or a command in the background."""


class GivenAnswer(Struct, frozen=True):
    """What a person answers to a turn's question."""

    profile: str
    user: str
    text: str
    session_id: str = ""
    """Whose question it is, where it is not named."""
    clarification_id: str = ""
    answer_id: str = ""
    """The same for the same answer, however often it is given."""
    denied: tuple[str, ...] = ()
    """Commands that the person may not say."""


class Undone(Struct, frozen=True):
    """What was taken back of a session."""

    turn_count: int
    messages_left: int
    user_text: str
    """What a person said in the first of its turns."""


class OpenApproval(Struct, frozen=True):
    """A question that waits for a person."""

    approval_id: str
    tool: str
    subject: str


_DECISIONS = {
    Decision.ONCE: turn_event_pb2.APPROVAL_DECISION_ONCE,
    Decision.SESSION: turn_event_pb2.APPROVAL_DECISION_SESSION,
    Decision.ALWAYS: turn_event_pb2.APPROVAL_DECISION_ALWAYS,
    Decision.DENY: turn_event_pb2.APPROVAL_DECISION_DENY,
}
_CHAT_DELTAS_PER_SECOND = 5
_BUSY = {
    BusyMode.INTERRUPT: turn_pb2.BUSY_MODE_INTERRUPT,
    BusyMode.QUEUE: turn_pb2.BUSY_MODE_QUEUE,
    BusyMode.STEER: turn_pb2.BUSY_MODE_STEER,
}
_BUSY_OF_COMMANDS = {
    COMPRESS: turn_pb2.BUSY_MODE_QUEUE,
    QUEUE: turn_pb2.BUSY_MODE_QUEUE,
    STEER: turn_pb2.BUSY_MODE_STEER,
    RETRY: turn_pb2.BUSY_MODE_INTERRUPT,
}
"""Of commands that say it themselves, whatever their chat has."""


class AgentClient:
    """Calls that fail with ServiceUnavailable may be made again, others end in AgentRefused."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._turns = turn_pb2_grpc.TurnServiceStub(channel)
        self._sessions = session_pb2_grpc.SessionServiceStub(channel)
        self._catalog = catalog_pb2_grpc.CatalogServiceStub(channel)
        self._approvals = approval_pb2_grpc.ApprovalServiceStub(channel)

    async def start(self, order: TurnOrder) -> None:
        """Start a turn; again is the same."""
        source, (command, _) = order.source, order.command
        is_compression = command == COMPRESS
        request = turn_pb2.StartTurnRequest(
            turn_id=order.turn_id,
            profile=order.profile,
            session_id=order.session_id,
            parts=message_parts(order.said, order.quotes),
            origin=origin_pb2.Origin(
                platform=source.platform,
                chat_id=source.chat_id,
                thread_id=source.thread_id,
                user_id=source.user_id,
                user_name=source.user_name,
                chat_type=source.chat_type,
                # Nobody else comes as far as a turn; what they may not do goes with it.
                trust=origin_pb2.TRUST_OWNER,
                is_shared=source.is_shared,
            ),
            kind=turn_pb2.TURN_KIND_COMPRESS if is_compression else turn_pb2.TURN_KIND_USER,
            busy_mode=_BUSY_OF_COMMANDS.get(command, _BUSY[order.busy_mode]),
            workdir=order.workdir,
            sandbox_template=order.sandbox_template,
            skip_context_files=order.skip_context_files,
            retries=command == RETRY,
            skills=[order.skill] if order.skill else (),
            context_file=context_file(order.notes_above),
            denied_commands=order.denied,
        )
        try:
            await self._turns.StartTurn(request)
        except grpc.aio.AioRpcError as error:
            raise explained(error) from error

    async def look_back(self, turn_id: str, session_id: str, profile: str, platform: str) -> None:
        """Have the agent look back at a session that is left; again is the same."""
        request = turn_pb2.StartTurnRequest(
            turn_id=turn_id,
            profile=profile,
            session_id=session_id,
            origin=origin_pb2.Origin(platform=platform),
            kind=turn_pb2.TURN_KIND_REVIEW,
        )
        try:
            await self._turns.StartTurn(request)
        except grpc.aio.AioRpcError as error:
            raise explained(error) from error

    async def watch(
        self, turn_id: str, profile: str, after: int = 0, max_deltas_per_second: int = 0
    ) -> AsyncGenerator[Sequence[turn_event_pb2.TurnEvent]]:
        """A turn's events after a sequence up to its end, in batches, over as many streams as it
        takes.
        """
        last = after

        def open_call() -> grpc.aio.UnaryStreamCall[
            turn_pb2.WatchTurnRequest, turn_pb2.WatchTurnResponse
        ]:
            request = turn_pb2.WatchTurnRequest(
                turn_id=turn_id,
                profile=profile,
                after_sequence=last,
                max_deltas_per_second=max_deltas_per_second,
            )
            return self._turns.WatchTurn(request)

        try:
            async with aclosing(resume(open_call, _ends_turn)) as responses:
                async for response in responses:
                    last = max(last, *(event.sequence for event in response.events))
                    yield response.events
        except grpc.aio.AioRpcError as error:
            raise explained(error) from error

    async def follow(self, turn_id: str, profile: str) -> AsyncGenerator[TurnEvent]:
        """What happens in a turn, as far as a chat shows it, from the beginning to its end."""
        watching = self.watch(turn_id, profile, max_deltas_per_second=_CHAT_DELTAS_PER_SECOND)
        async with aclosing(watching) as batches:
            async for events in batches:
                for event in events:
                    if (shown := turn_event(event)) is not None:
                        yield shown

    async def ended(self, turn_id: str, profile: str) -> None:
        """Return when a turn has ended."""
        async with aclosing(self.watch(turn_id, profile, max_deltas_per_second=1)) as events:
            async for _ in events:
                pass

    async def interrupt(self, session_id: str, profile: str, turn_id: str = "") -> bool:
        """Stop a turn, or the session's live one; returns whether there was one."""
        request = turn_pb2.InterruptTurnRequest(
            turn_id=turn_id, session_id=session_id, profile=profile
        )
        try:
            response = await self._turns.InterruptTurn(request)
        except grpc.aio.AioRpcError as error:
            raise explained(error) from error
        return response.HasField("turn")

    async def session(self, session_id: str, profile: str) -> SessionFacts | None:
        """The session, if there is one."""
        request = session_pb2.GetSessionRequest(session_id=session_id, profile=profile)
        try:
            response = await self._sessions.GetSession(request)
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.NOT_FOUND:
                return None
            raise explained(error) from error
        found = response.session
        return SessionFacts(
            session_id=found.session_id,
            title=found.title,
            message_count=found.message_count,
            prompt_tokens=found.usage.prompt_tokens,
            completion_tokens=found.usage.completion_tokens,
            is_busy=response.is_busy,
        )

    async def latest_session(self, profile: str, platform: str) -> str | None:
        """The session of a platform that was used last, if there is one."""
        request = session_pb2.ListSessionsRequest(profile=profile, page_size=1, platform=platform)
        try:
            response = await self._sessions.ListSessions(request)
        except grpc.aio.AioRpcError as error:
            raise explained(error) from error
        return response.sessions[0].session_id if response.sessions else None

    async def session_titled(self, title: str, profile: str) -> str | None:
        """The session of a title that was used last, if there is one."""
        request = session_pb2.ListSessionsRequest(profile=profile, page_size=1, title=title)
        try:
            response = await self._sessions.ListSessions(request)
        except grpc.aio.AioRpcError as error:
            raise explained(error) from error
        return response.sessions[0].session_id if response.sessions else None

    async def undo(self, session_id: str, profile: str, turns: int, undo_id: str) -> Undone:
        """Take back a session's last turns; again is the same."""
        request = session_change_pb2.UndoTurnsRequest(
            session_id=session_id, profile=profile, turn_count=turns, undo_id=undo_id
        )
        try:
            undone = await self._sessions.UndoTurns(request)
        except grpc.aio.AioRpcError as error:
            raise explained(error) from error
        return Undone(undone.turn_count, undone.message_count, undone.user_text)

    async def personalities(self, session_id: str, profile: str) -> tuple[Sequence[str], str]:
        """The names of those that there are, and of the session's; empty where it has none."""
        request = catalog_pb2.ListPersonalitiesRequest(profile=profile, session_id=session_id)
        try:
            found = await self._catalog.ListPersonalities(request)
        except grpc.aio.AioRpcError as error:
            raise explained(error) from error
        return [one.name for one in found.personalities], found.current_name

    async def set_personality(
        self, session_id: str, profile: str, name: str, platform: str
    ) -> None:
        """Give a session a personality; an empty name takes it away."""
        request = session_change_pb2.SetPersonalityRequest(
            session_id=session_id, profile=profile, name=name, platform=platform
        )
        try:
            await self._sessions.SetPersonality(request)
        except grpc.aio.AioRpcError as error:
            raise explained(error) from error

    async def open_approvals(self, session_id: str, profile: str) -> Sequence[OpenApproval]:
        """What the session's turns wait for, oldest first."""
        request = approval_pb2.ListApprovalsRequest(profile=profile, session_id=session_id)
        try:
            response = await self._approvals.ListApprovals(request)
        except grpc.aio.AioRpcError as error:
            raise explained(error) from error
        return [
            OpenApproval(found.approval_id, found.tool, found.subject)
            for found in response.approvals
        ]

    async def decide(
        self, approval_id: str, profile: str, decision: Decision, decided_by: str
    ) -> None:
        """Decide an approval; AgentRefused when it is unknown or decided otherwise."""
        request = approval_pb2.ResolveApprovalRequest(
            approval_id=approval_id,
            profile=profile,
            decision=_DECISIONS[decision],
            decided_by=decided_by,
        )
        try:
            await self._approvals.ResolveApproval(request)
        except grpc.aio.AioRpcError as error:
            raise explained(error) from error

    async def answer(self, answer: GivenAnswer) -> bool:
        """Answer a turn's question; False when none waits. AgentRefused when it is too late."""
        request = approval_pb2.AnswerClarificationRequest(
            clarification_id=answer.clarification_id,
            session_id=answer.session_id,
            profile=answer.profile,
            answer=answer.text,
            answered_by=answer.user,
            answer_id=answer.answer_id,
            denied_commands=answer.denied,
        )
        try:
            await self._approvals.AnswerClarification(request)
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.NOT_FOUND:
                return False
            raise explained(error) from error
        return True


def _ends_turn(response: turn_pb2.WatchTurnResponse) -> bool:
    return response.events[-1].HasField("turn_finished")
