"""MemoryService."""

from datetime import timedelta

from agent_service.profiles.memory.entries import Action, Operation, Target
from agent_service.profiles.memory.provider import NOT_CHOSEN, ExternalMemory, ProviderFailed, Scope
from agent_service.profiles.memory.store import Memory, MemoryChangeRequest, MemoryStore
from agent_service.servicer.fields import Context, chosen, profile_of
from agent_service.storage import reviews
from agent_service.storage.memory import MemoryChange
from agent_service.turns.memory_sync import MemorySync
from hermes.agent.v1 import memory_pb2 as pb
from hermes.agent.v1.memory_pb2_grpc import MemoryServiceServicer
from services.clock import Clock
from services.database import Database
from services.errors import InvalidArgument
from services.ids import new_id
from services.rpc.auth import caller
from services.rpc.messages import message_of
from services.validation import check_id, page_size

MAX_OPERATIONS = 64
USUAL_LISTED = 50
REFUSALS_KEPT = timedelta(days=30)
MAX_REFUSALS = 10
PROBE_S = 10.0


class MemoryServicer(MemoryServiceServicer):
    """Serves memories."""

    def __init__(
        self,
        memories: MemoryStore,
        external: ExternalMemory,
        sync: MemorySync,
        database: Database,
        clock: Clock,
    ) -> None:
        self._memories = memories
        self._external = external
        self._sync = sync
        self._database = database
        self._clock = clock

    async def GetMemory(
        self, request: pb.GetMemoryRequest, context: Context
    ) -> pb.GetMemoryResponse:
        profile = profile_of(request.profile)
        found = await self._memories.load(profile)
        since = self._clock.now() - REFUSALS_KEPT
        refusals = await self._database.read(
            lambda conn: reviews.refusals(conn, profile, since, MAX_REFUSALS)
        )
        return pb.GetMemoryResponse(memories=map(_memory, found), refusals=refusals)

    async def ApplyMemory(
        self, request: pb.ApplyMemoryRequest, context: Context
    ) -> pb.ApplyMemoryResponse:
        check_id("request_id", request.request_id)
        if not 1 <= len(request.operations) <= MAX_OPERATIONS:
            raise InvalidArgument("too few or too many", fields={"operations": "1 to 64"})
        asked = MemoryChangeRequest(
            key=request.request_id,
            profile=profile_of(request.profile),
            target=chosen(Target, pb.MemoryTarget, request.target, "target"),
            operations=tuple(map(_operation, request.operations)),
            by=caller(),
            version=request.expected_version,
        )
        return pb.ApplyMemoryResponse(memory=_memory(await self._memories.change(asked)))

    async def ListMemoryChanges(
        self, request: pb.ListMemoryChangesRequest, context: Context
    ) -> pb.ListMemoryChangesResponse:
        profile, most = profile_of(request.profile), page_size(request.page_size, USUAL_LISTED)
        changes = await self._memories.history(profile, most)
        return pb.ListMemoryChangesResponse(changes=map(_change, changes))

    async def UndoMemoryChange(
        self, request: pb.UndoMemoryChangeRequest, context: Context
    ) -> pb.UndoMemoryChangeResponse:
        if request.request_id:
            check_id("request_id", request.request_id)
        profile, key = profile_of(request.profile), request.request_id or new_id("chg")
        memory = await self._memories.undo(profile, request.change_id, key, caller())
        return pb.UndoMemoryChangeResponse(memory=_memory(memory))

    async def GetMemoryProvider(
        self, request: pb.GetMemoryProviderRequest, context: Context
    ) -> pb.GetMemoryProviderResponse:
        external, scope = self._external, Scope(profile_of(request.profile))
        if external.lack == NOT_CHOSEN:
            return pb.GetMemoryProviderResponse()
        problem = block = ""
        try:
            block = await external.call(lambda: external.provider.block(scope), PROBE_S)
        except ProviderFailed as error:
            problem = str(error)
        return pb.GetMemoryProviderResponse(
            name=external.name,
            problem=problem,
            block=await external.cleaned(block),
            waiting_session_count=await self._sync.count_waiting(),
        )

    async def EndSession(
        self, request: pb.EndSessionRequest, context: Context
    ) -> pb.EndSessionResponse:
        check_id("session_id", request.session_id)
        self._sync.end(profile_of(request.profile), request.session_id)
        return pb.EndSessionResponse()


def _memory(found: Memory) -> pb.Memory:
    return message_of(
        found,
        pb.Memory,
        char_count=len(found.text),
        char_limit=found.limit,
        drifted=found.is_drifted,
    )


def _change(made: MemoryChange) -> pb.MemoryChange:
    return message_of(
        made, pb.MemoryChange, change_id=made.key, changed_by=made.by, create_time=made.created_at
    )


def _operation(wire: pb.MemoryOperation) -> Operation:
    action = chosen(Action, pb.MemoryAction, wire.action, "operations.action")
    return Operation(action, wire.content, wire.old_text)
