"""The agent's memories."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cached_property

from msgspec import Struct

from gateway_service.clients.calls import ChannelOf, of_agent
from hermes.agent.v1 import memory_pb2, memory_pb2_grpc

_TITLES = {
    memory_pb2.MEMORY_TARGET_MEMORY: "Notes of the work",
    memory_pb2.MEMORY_TARGET_USER: "Who you are",
}


class MemoryInfo(Struct, frozen=True):
    """One memory as it is now."""

    title: str
    entries: tuple[str, ...]
    char_count: int
    char_limit: int


class ChangeInfo(Struct, frozen=True):
    """One change of one memory."""

    change_id: str
    title: str
    changed_by: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    made_at: datetime

    @property
    def added(self) -> list[str]:
        """Entries that came with it."""
        return [entry for entry in self.after if entry not in self.before]

    @property
    def removed(self) -> list[str]:
        """Entries that went with it."""
        return [entry for entry in self.before if entry not in self.after]

    def reverses(self, other: "ChangeInfo") -> bool:
        """Whether it gives the memory what it was before the other one."""
        return (self.title, self.before, self.after) == (other.title, other.after, other.before)


class MemoriesClient:
    """Reads memories, and takes changes of them back."""

    def __init__(self, channel_of: ChannelOf) -> None:
        self._channel_of = channel_of

    @cached_property
    def _stub(self) -> memory_pb2_grpc.MemoryServiceStub:
        return memory_pb2_grpc.MemoryServiceStub(self._channel_of("agent"))

    async def both(self, profile: str) -> Sequence[MemoryInfo]:
        """Both memories of a profile."""
        request = memory_pb2.GetMemoryRequest(profile=profile)
        found = await of_agent(self._stub.GetMemory(request))
        return [
            MemoryInfo(
                _TITLES[memory.target], tuple(memory.entries), memory.char_count, memory.char_limit
            )
            for memory in found.memories
        ]

    async def changes(self, profile: str, most: int) -> Sequence[ChangeInfo]:
        """The last changes of both, the newest first."""
        request = memory_pb2.ListMemoryChangesRequest(profile=profile, page_size=most)
        found = await of_agent(self._stub.ListMemoryChanges(request))
        return [
            ChangeInfo(
                change_id=change.change_id,
                title=_TITLES[change.target],
                changed_by=change.changed_by,
                before=_entries(change.before),
                after=_entries(change.after),
                made_at=change.create_time.ToDatetime(UTC),
            )
            for change in found.changes
        ]

    async def undo(self, profile: str, change_id: str, request_id: str) -> None:
        """Take a change back; the same request again changes nothing."""
        request = memory_pb2.UndoMemoryChangeRequest(
            profile=profile, change_id=change_id, request_id=request_id
        )
        await of_agent(self._stub.UndoMemoryChange(request))


def _entries(text: str) -> tuple[str, ...]:
    return tuple(entry.strip() for entry in text.split("\n§\n") if entry.strip())
