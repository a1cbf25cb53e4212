"""SessionService."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from datetime import UTC, datetime

from agent_service.clients.sandbox_end import SandboxEnd
from agent_service.records.overlays import NOTHING as NO_OVERLAY
from agent_service.records.overlays import Personalities
from agent_service.records.transcripts import MAX_BYTES
from agent_service.servicer.fields import Context, profile_of
from agent_service.servicer.session_requests import (
    hits_response,
    message,
    model_given,
    not_negative,
    searching,
    title_given,
    unused,
)
from agent_service.sessions.history import Histories
from agent_service.storage import session_changes as changes
from agent_service.storage import sessions as storage
from agent_service.storage import undo
from agent_service.storage.activity import is_session_busy
from hermes.agent.v1 import session_change_pb2, session_pb2_grpc
from hermes.agent.v1 import session_pb2 as pb
from services.clock import Clock
from services.database import Database
from services.errors import AlreadyExists, InvalidArgument, LimitExceeded
from services.ids import new_id
from services.rpc.messages import message_of
from services.validation import check_id, page_size

_SESSIONS_A_PAGE = 50
_MESSAGES_A_PAGE = 100
_HITS_A_PAGE = 20
MAX_HITS = 100
_PRUNED_A_CALL = 100


class SessionServicer(session_pb2_grpc.SessionServiceServicer):
    """Serves sessions from the database."""

    def __init__(
        self,
        database: Database,
        histories: Histories,
        personalities: Personalities,
        clock: Clock,
        redact: Callable[[str], str],
        sandboxes: SandboxEnd,
    ) -> None:
        """`redact` removes secrets from titles."""
        self._redact = redact
        self._sandboxes = sandboxes
        self._database = database
        self._histories = histories
        self._personalities = personalities
        self._clock = clock

    async def GetSession(
        self, request: pb.GetSessionRequest, context: Context
    ) -> pb.GetSessionResponse:
        profile = profile_of(request.profile)
        info, is_busy = await self._database.read(
            lambda conn: (
                storage.get(conn, request.session_id, profile),
                is_session_busy(conn, request.session_id),
            )
        )
        return pb.GetSessionResponse(session=message_of(info, pb.Session), is_busy=is_busy)

    async def ListSessions(
        self, request: pb.ListSessionsRequest, context: Context
    ) -> pb.ListSessionsResponse:
        size = page_size(request.page_size, _SESSIONS_A_PAGE)
        before = _parse(request.page_token) if request.page_token else None
        profile = profile_of(request.profile)
        found = await self._database.read(
            lambda conn: storage.list_by_use(
                conn,
                profile,
                request.platform,
                before,
                size + 1,
                request.title,
                without_jobs=request.without_jobs,
            )
        )
        page = found[:size]
        return pb.ListSessionsResponse(
            sessions=[message_of(info, pb.Session) for info in page],
            next_page_token=_token(page[-1]) if len(found) > size else "",
        )

    async def ListMessages(
        self, request: pb.ListMessagesRequest, context: Context
    ) -> pb.ListMessagesResponse:
        size = page_size(request.page_size, _MESSAGES_A_PAGE)
        profile = profile_of(request.profile)
        found = await self._database.read(
            lambda conn: storage.messages(
                conn, request.session_id, profile, request.after_sequence, size + 1
            )
        )
        return pb.ListMessagesResponse(
            messages=[message(stored) for stored in found[:size]], has_more=len(found) > size
        )

    async def SearchMessages(
        self, request: pb.SearchMessagesRequest, context: Context
    ) -> pb.SearchMessagesResponse:
        size = page_size(request.page_size, _HITS_A_PAGE, MAX_HITS)
        found = await self._database.read(searching(request, size))
        return hits_response(request, found, size)

    async def RenameSession(
        self, request: pb.RenameSessionRequest, context: Context
    ) -> pb.RenameSessionResponse:
        title = title_given(self._redact(request.title))
        if not title:
            raise InvalidArgument("a title is missing", fields={"title": "1 to 200 characters"})
        profile = profile_of(request.profile)
        info = await self._database.write(
            lambda conn: changes.rename(conn, request.session_id, profile, title)
        )
        return pb.RenameSessionResponse(session=message_of(info, pb.Session))

    async def BranchSession(
        self, request: pb.BranchSessionRequest, context: Context
    ) -> pb.BranchSessionResponse:
        check_id("new_session_id", request.new_session_id)
        wanted = changes.Branch(
            session_id=request.session_id,
            new_session_id=request.new_session_id,
            profile=profile_of(request.profile),
            through=not_negative("through_sequence", request.through_sequence),
            title=title_given(self._redact(request.title)),
        )
        now = self._clock.now()
        info = await self._database.write(lambda conn: changes.branch(conn, wanted, now))
        return pb.BranchSessionResponse(session=message_of(info, pb.Session))

    async def UndoTurns(
        self, request: session_change_pb2.UndoTurnsRequest, context: Context
    ) -> session_change_pb2.UndoTurnsResponse:
        count = page_size(request.turn_count, 1)
        expected = not_negative("expected_message_count", request.expected_message_count)
        if request.undo_id:
            check_id("undo_id", request.undo_id)
        wanted = undo.UndoRequest(
            session_id=request.session_id,
            profile=profile_of(request.profile),
            undo_id=request.undo_id or new_id("und"),
            turns=count,
            expected=expected,
        )
        now = self._clock.now()
        undone = await self._database.write(lambda conn: undo.undo(conn, wanted, now))
        return message_of(undone, session_change_pb2.UndoTurnsResponse)

    async def SetPersonality(
        self, request: session_change_pb2.SetPersonalityRequest, context: Context
    ) -> session_change_pb2.SetPersonalityResponse:
        check_id("session_id", request.session_id)
        overlay = NO_OVERLAY
        if request.name:
            found = self._personalities.find(request.name)
            overlay = overlay.with_personality(found.name, found.prompt)
        profile, platform = profile_of(request.profile), request.platform or "cli"
        now = self._clock.now()
        await self._database.write(
            lambda conn: changes.set_personality(
                conn, request.session_id, profile, platform, overlay, now
            )
        )
        return session_change_pb2.SetPersonalityResponse()

    async def SetSessionModel(
        self, request: session_change_pb2.SetSessionModelRequest, context: Context
    ) -> session_change_pb2.SetSessionModelResponse:
        check_id("session_id", request.session_id)
        profile, platform = profile_of(request.profile), request.platform or "cli"
        model, now = model_given(request.model), self._clock.now()
        await self._database.write(
            lambda conn: changes.set_model(conn, request.session_id, profile, platform, model, now)
        )
        return session_change_pb2.SetSessionModelResponse()

    async def DeleteSession(
        self, request: session_change_pb2.DeleteSessionRequest, context: Context
    ) -> session_change_pb2.DeleteSessionResponse:
        profile, now = profile_of(request.profile), self._clock.now()
        await self._database.write(
            lambda conn: changes.delete(conn, request.session_id, profile, now)
        )
        return session_change_pb2.DeleteSessionResponse()

    async def ReleaseSandbox(
        self, request: session_change_pb2.ReleaseSandboxRequest, context: Context
    ) -> session_change_pb2.ReleaseSandboxResponse:
        await self._sandboxes.release(
            profile_of(request.profile),
            request.session_id,
            deletes_workspace=request.deletes_workspace,
        )
        return session_change_pb2.ReleaseSandboxResponse()

    async def PruneSessions(
        self, request: session_change_pb2.PruneSessionsRequest, context: Context
    ) -> session_change_pb2.PruneSessionsResponse:
        """Delete unused sessions, each in a transaction of its own."""
        most, now = page_size(request.max_count, _PRUNED_A_CALL), self._clock.now()
        wanted = unused(request, now)
        found = await self._database.read(lambda conn: changes.unused(conn, wanted, most + 1))
        pruned = [
            session_id
            for session_id in found[:most]
            if request.dry_run or await self._prune(session_id, wanted, now)
        ]
        return session_change_pb2.PruneSessionsResponse(
            session_ids=pruned, next_after_session_id=found[most - 1] if len(found) > most else ""
        )

    async def _prune(self, session_id: str, wanted: changes.PruneFilter, now: datetime) -> bool:
        """Delete a session, unless somebody used it meanwhile."""
        return await self._database.write(
            lambda conn: changes.delete_unused(conn, session_id, wanted, now)
        )

    async def ExportSession(
        self, request: session_change_pb2.ExportSessionRequest, context: Context
    ) -> AsyncGenerator[session_change_pb2.ExportSessionResponse]:
        profile = profile_of(request.profile)
        async with aclosing(self._histories.write(profile, request.session_id)) as pieces:
            async for piece in pieces:
                yield session_change_pb2.ExportSessionResponse(data=piece)

    async def ImportSession(
        self,
        request_iterator: AsyncIterator[session_change_pb2.ImportSessionRequest],
        context: Context,
    ) -> session_change_pb2.ImportSessionResponse:
        first: session_change_pb2.ImportSessionRequest | None = None
        data = bytearray()
        async for request in request_iterator:
            first = first or request
            data += request.data
            if len(data) > MAX_BYTES:
                raise LimitExceeded(f"a transcript has at most {MAX_BYTES >> 20} MiB")
        if first is None:
            raise InvalidArgument("nothing was sent", fields={"data": "a transcript"})
        taken = await self._histories.take(
            profile_of(first.profile), bytes(data), first.session_id or "the transcript"
        )
        if taken.problem:
            raise AlreadyExists(f"session {taken.session_id}: {taken.problem}")
        response = session_change_pb2.ImportSessionResponse
        return message_of(taken, response, imported=taken.is_new)


def _token(last: storage.SessionInfo) -> str:
    return f"{last.update_time.timestamp():.6f} {last.session_id}"


def _parse(token: str) -> tuple[datetime, str]:
    moment, _, session_id = token.partition(" ")
    try:
        return datetime.fromtimestamp(float(moment), UTC), session_id
    except (ValueError, OverflowError):
        raise InvalidArgument("not a page token", fields={"page_token": "as it was sent"}) from None
