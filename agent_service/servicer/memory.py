"""MemoryService."""

from typing import Any

import grpc.aio

from agent_service.convert import memory as convert
from agent_service.convert.common import profile_of
from agent_service.memory.store import MemoryStore
from hermes.agent.v1 import memory_pb2, memory_pb2_grpc
from services.auth import caller

Context = grpc.aio.ServicerContext[Any, Any]


class MemoryServicer(memory_pb2_grpc.MemoryServiceServicer):
    """Serves memories."""

    def __init__(self, memories: MemoryStore) -> None:
        self._memories = memories

    async def GetMemory(
        self, request: memory_pb2.GetMemoryRequest, context: Context
    ) -> memory_pb2.GetMemoryResponse:
        """Returns both memories."""
        found = await self._memories.load(profile_of(request.profile))
        return memory_pb2.GetMemoryResponse(memories=map(convert.memory, found))

    async def ApplyMemory(
        self, request: memory_pb2.ApplyMemoryRequest, context: Context
    ) -> memory_pb2.ApplyMemoryResponse:
        """Changes one."""
        memory = await self._memories.change(convert.asked(request))
        return memory_pb2.ApplyMemoryResponse(memory=convert.memory(memory))

    async def ListMemoryChanges(
        self, request: memory_pb2.ListMemoryChangesRequest, context: Context
    ) -> memory_pb2.ListMemoryChangesResponse:
        """Lists changes."""
        profile, most = profile_of(request.profile), convert.listed(request)
        changes = await self._memories.history(profile, most)
        return memory_pb2.ListMemoryChangesResponse(changes=map(convert.change, changes))

    async def UndoMemoryChange(
        self, request: memory_pb2.UndoMemoryChangeRequest, context: Context
    ) -> memory_pb2.UndoMemoryChangeResponse:
        """Takes a change back."""
        profile, key = profile_of(request.profile), convert.undo_key(request)
        memory = await self._memories.undo(profile, request.change_id, key, caller())
        return memory_pb2.UndoMemoryChangeResponse(memory=convert.memory(memory))
