"""Clients of the agent and scheduler.

Calls that fail with ServiceUnavailable may be repeated; AgentRefused and SchedulerRefused are
final. Messages are used as they are.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from functools import cached_property
from typing import TypeVar, cast

import grpc
import grpc.aio

from gateway_service.errors import AgentRefused, SchedulerRefused
from gateway_service.messages import (
    COMPRESS,
    RETRY,
    BusyMode,
    Quote,
    Source,
    TurnRequest,
    UploadedFile,
)
from gateway_service.storage.received_files import ReceivedFile
from hermes.agent.v1 import (
    approval_pb2,
    approval_pb2_grpc,
    catalog_pb2_grpc,
    memory_pb2,
    memory_pb2_grpc,
    model_catalog_pb2_grpc,
    session_pb2,
    session_pb2_grpc,
    skill_pb2_grpc,
    tool_catalog_pb2_grpc,
    turn_event_pb2,
    turn_pb2,
    turn_pb2_grpc,
    upload_pb2,
    upload_pb2_grpc,
    usage_pb2_grpc,
)
from hermes.common.v1.content_pb2 import (
    QUOTATION_KIND_ANSWERED,
    QUOTATION_KIND_FORWARDED,
    ContextFile,
    FileKind,
    MessageFile,
    MessagePart,
    Quotation,
)
from hermes.common.v1.origin_pb2 import TRUST_OWNER, Origin
from hermes.scheduler.v1 import curator_pb2_grpc, job_pb2_grpc
from services.errors import DETAILS_KEY, HermesError, Reason, ServiceUnavailable, details_of
from services.rpc.streams import resume

_log = logging.getLogger(__name__)

ChannelOf = Callable[[str], grpc.aio.Channel]
"""Returns the channel to a service; FailedPrecondition if it has no address."""

UNREAD = "[A file ({kind}) came with this message, but could not be fetched.]"
"""What the model is told of files that it does not get."""
UPLOAD_S = 120.0
END_S = 3.0
"""Short, as nobody needs the answer."""
CHUNK_BYTES = 256 * 1024

SCHEDULER_S = 10.0
"""Short, because a person waits for the answer."""
SCHEDULER_AWAY = (
    "The scheduler does not answer. Jobs and the curator need it. Start it with `hermes up` or "
    "`hermes serve scheduler`. A chat of a profile on its own reaches only the scheduler of its "
    "home; `hermes jobs --profile NAME` finds the jobs of a profile wherever they run."
)

_PASSING = (Reason.SERVICE_UNAVAILABLE, Reason.DRAINING, Reason.DATABASE_UNAVAILABLE)
_T = TypeVar("_T")


async def call_agent(call: Awaitable[_T]) -> _T:
    """Call the agent; raises ServiceUnavailable or AgentRefused."""
    try:
        return await call
    except grpc.aio.AioRpcError as error:
        raise explain_error(error) from error


async def call_scheduler(
    method: Callable[..., Awaitable[_T]], request: object, limit_s: float = SCHEDULER_S
) -> _T:
    """Call the scheduler; raises ServiceUnavailable if it is away, else SchedulerRefused."""
    try:
        return await method(request, timeout=limit_s)
    except grpc.aio.AioRpcError as error:
        details = details_of(error)
        # Without a scheduler, as in `hermes chat` alone, its methods are unimplemented.
        if error.code() is grpc.StatusCode.UNIMPLEMENTED or not _has_said_why(error):
            _log.warning("the scheduler does not answer: %s", details.message)
            raise ServiceUnavailable(SCHEDULER_AWAY) from error
        if details.reason in _PASSING:
            raise ServiceUnavailable(details.message) from error
        raise SchedulerRefused(
            details.message, reason=details.reason, metadata=details.metadata
        ) from error


def _has_said_why(error: grpc.aio.AioRpcError) -> bool:
    """Return whether a service itself refused a call, rather than the connection."""
    trailing = cast("Iterable[tuple[str, str | bytes]]", error.trailing_metadata() or ())
    return any(key == DETAILS_KEY for key, _ in trailing)


def explain_error(error: grpc.aio.AioRpcError) -> HermesError:
    """Return a failed call of the agent as our own error."""
    details = details_of(error)
    # An unreachable model is UNAVAILABLE too, but that is an answer.
    if details.reason in _PASSING:
        return ServiceUnavailable(details.message, retry_after_s=details.retry_after_s)
    return AgentRefused(details.message, reason=details.reason, metadata=details.metadata)


def to_origin(source: Source) -> Origin:
    """Return the origin of a turn or job; only people who may talk to Hermes have one."""
    return Origin(
        platform=source.platform,
        chat_id=source.chat_id,
        thread_id=source.thread_id,
        user_id=source.user_id,
        user_name=source.user_name,
        chat_type=source.chat_type,
        trust=TRUST_OWNER,
        is_shared=source.is_shared,
    )


def _parts(turn: TurnRequest) -> list[MessagePart]:
    said = [MessagePart(text=turn.prompt)] if turn.prompt else []
    said += [MessagePart(quotation=_quotation(quote)) for quote in turn.quotes]
    if turn.command[0] in (COMPRESS, RETRY):
        return said
    uploads = turn.uploads or ()
    had = [upload.file for upload in uploads]
    lost = [MessagePart(text=UNREAD.format(kind=f.kind)) for f in turn.files if f not in had]
    return [*said, *lost, *(MessagePart(file=_file(upload)) for upload in uploads)]


def _file(upload: UploadedFile) -> MessageFile:
    return MessageFile(
        kind=FileKind.Value(f"FILE_KIND_{upload.file.kind.upper()}"),
        name=upload.file.name,
        mime_type=upload.file.mime,
        length_bytes=upload.length_bytes,
        sha256=bytes.fromhex(upload.sha256),
        is_forwarded=upload.file.is_forwarded,
    )


def _quotation(quote: Quote) -> Quotation:
    kind = QUOTATION_KIND_FORWARDED if quote.is_forwarded else QUOTATION_KIND_ANSWERED
    return Quotation(kind=kind, text=quote.text, author=quote.author)


def _overlays(turn: TurnRequest) -> turn_pb2.Overlays | None:
    if not turn.earlier:
        return None
    said = [turn_pb2.PrefillMessage(role=each.role, text=each.text) for each in turn.earlier]
    return turn_pb2.Overlays(prefill_messages=said)


async def _upload(found: ReceivedFile) -> AsyncGenerator[upload_pb2.UploadFileRequest]:
    digest = bytes.fromhex(found.sha256)
    header = upload_pb2.UploadFileRequest.Header(length_bytes=found.length_bytes, sha256=digest)
    yield upload_pb2.UploadFileRequest(header=header)
    for offset in range(0, found.length_bytes, CHUNK_BYTES):
        chunk = await asyncio.to_thread(found.read, offset, CHUNK_BYTES)
        yield upload_pb2.UploadFileRequest(chunk=chunk)


_BUSY = {
    BusyMode.INTERRUPT: turn_pb2.BUSY_MODE_INTERRUPT,
    BusyMode.QUEUE: turn_pb2.BUSY_MODE_QUEUE,
    BusyMode.STEER: turn_pb2.BUSY_MODE_STEER,
}


class SchedulerClient:
    """The scheduler's stubs, connected on first use, because it may have no address."""

    def __init__(self, channel_of: ChannelOf) -> None:
        self._channel_of = channel_of

    @cached_property
    def jobs(self) -> job_pb2_grpc.JobServiceStub:
        return job_pb2_grpc.JobServiceStub(self._channel_of("scheduler"))

    @cached_property
    def curators(self) -> curator_pb2_grpc.CuratorServiceStub:
        return curator_pb2_grpc.CuratorServiceStub(self._channel_of("scheduler"))


class AgentClient:
    """The agent's stubs, and calls that several parts of the gateway make."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._turns = turn_pb2_grpc.TurnServiceStub(channel)
        self._uploads = upload_pb2_grpc.UploadServiceStub(channel)
        self._approvals = approval_pb2_grpc.ApprovalServiceStub(channel)
        self.catalog = catalog_pb2_grpc.CatalogServiceStub(channel)
        self.memories = memory_pb2_grpc.MemoryServiceStub(channel)
        self.models = model_catalog_pb2_grpc.ModelCatalogServiceStub(channel)
        self.sessions = session_pb2_grpc.SessionServiceStub(channel)
        self.skills = skill_pb2_grpc.SkillServiceStub(channel)
        self.tools = tool_catalog_pb2_grpc.ToolCatalogServiceStub(channel)
        self.usage = usage_pb2_grpc.UsageServiceStub(channel)

    async def start(self, turn: TurnRequest) -> bool:
        """Start a turn; return whether it waits for work in progress. May be repeated."""
        command, _ = turn.command
        is_compression, notes = command == COMPRESS, turn.notes_above
        request = turn_pb2.StartTurnRequest(
            turn_id=turn.turn_id,
            profile=turn.profile,
            session_id=turn.session_id,
            parts=_parts(turn),
            origin=to_origin(turn.source),
            kind=turn_pb2.TURN_KIND_COMPRESS if is_compression else turn_pb2.TURN_KIND_USER,
            busy_mode=_BUSY[turn.own_mode],
            workdir=turn.workdir,
            sandbox_template=turn.sandbox_template,
            skip_context_files=turn.skip_context_files,
            retries=command == RETRY,
            is_command=turn.is_shell_command,
            skills=[turn.skill] if turn.skill else (),
            context_file=notes and ContextFile(path=notes.path, text=notes.text),
            denied_commands=turn.denied,
            model=turn.model,
            system_message=turn.system_message,
            overlays=_overlays(turn),
        )
        started = (await call_agent(self._turns.StartTurn(request))).turn
        return started.state == turn_pb2.TURN_STATE_QUEUED

    async def upload(self, file: ReceivedFile) -> None:
        """Give the agent a file of a message; may be repeated."""
        # Not closed here: gRPC may be in the middle of it, where the agent answers early.
        await call_agent(self._uploads.UploadFile(_upload(file), timeout=UPLOAD_S))

    async def request_review(
        self, turn_id: str, session_id: str, profile: str, platform: str
    ) -> None:
        """Ask for a review of a session that was left; may be repeated."""
        request = turn_pb2.StartTurnRequest(
            turn_id=turn_id,
            profile=profile,
            session_id=session_id,
            origin=Origin(platform=platform),
            kind=turn_pb2.TURN_KIND_REVIEW,
        )
        await call_agent(self._turns.StartTurn(request))

    async def end_session(self, session_id: str, profile: str) -> None:
        """Note that a person has left a session; a failure only costs an external memory that."""
        request = memory_pb2.EndSessionRequest(session_id=session_id, profile=profile)
        try:
            await call_agent(self.memories.EndSession(request, timeout=END_S))
        except HermesError as error:
            _log.info("the end of session %s is not noted: %s", session_id, error)

    async def watch(
        self, turn_id: str, profile: str, after: int = 0, max_deltas_per_second: int = 0
    ) -> AsyncGenerator[Sequence[turn_event_pb2.TurnEvent]]:
        """Yield batches of a turn's events after a sequence, to its end, across reconnects."""
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
            raise explain_error(error) from error

    async def turn(self, turn_id: str, profile: str) -> turn_pb2.Turn:
        request = turn_pb2.GetTurnRequest(turn_id=turn_id, profile=profile)
        return (await call_agent(self._turns.GetTurn(request))).turn

    async def wait_for_end(self, turn_id: str, profile: str) -> None:
        async with aclosing(self.watch(turn_id, profile, max_deltas_per_second=1)) as events:
            async for _ in events:
                pass

    async def interrupt(self, session_id: str, profile: str, turn_id: str = "") -> bool:
        """Stop a turn, or the session's live one; return whether there was one."""
        request = turn_pb2.InterruptTurnRequest(
            turn_id=turn_id, session_id=session_id, profile=profile
        )
        return (await call_agent(self._turns.InterruptTurn(request))).HasField("turn")

    async def session(self, session_id: str, profile: str) -> session_pb2.GetSessionResponse | None:
        request = session_pb2.GetSessionRequest(session_id=session_id, profile=profile)
        try:
            return await call_agent(self.sessions.GetSession(request))
        except AgentRefused as error:
            if error.reason is Reason.NOT_FOUND:
                return None
            raise

    async def latest_session(
        self, profile: str, *, platform: str = "", title: str = ""
    ) -> session_pb2.Session | None:
        """Return the last used session of a platform or title, if any."""
        request = session_pb2.ListSessionsRequest(
            profile=profile, page_size=1, platform=platform, title=title
        )
        found = await call_agent(self.sessions.ListSessions(request))
        return next(iter(found.sessions), None)

    async def open_approvals(
        self, session_id: str, profile: str
    ) -> Sequence[approval_pb2.Approval]:
        """Return the session's open approvals, oldest first."""
        request = approval_pb2.ListApprovalsRequest(profile=profile, session_id=session_id)
        return (await call_agent(self._approvals.ListApprovals(request))).approvals

    async def decide(
        self,
        approval_id: str,
        profile: str,
        decision: "turn_event_pb2.ApprovalDecision.ValueType",
        decided_by: str,
    ) -> None:
        """Decide an approval; AgentRefused if it is unknown or was decided otherwise."""
        request = approval_pb2.ResolveApprovalRequest(
            approval_id=approval_id, profile=profile, decision=decision, decided_by=decided_by
        )
        await call_agent(self._approvals.ResolveApproval(request))

    async def answer(self, answer: approval_pb2.AnswerClarificationRequest) -> bool:
        """Answer a turn's question; False if none waits. AgentRefused if it is too late."""
        try:
            await call_agent(self._approvals.AnswerClarification(answer))
        except AgentRefused as error:
            if error.reason is Reason.NOT_FOUND:
                return False
            raise
        return True


def _ends_turn(response: turn_pb2.WatchTurnResponse) -> bool:
    return response.events[-1].HasField("turn_finished")
