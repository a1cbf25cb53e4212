"""The guide's backend: boxes of another backend, with less memory than was asked for."""

from msgspec.structs import replace

from executor_service.backends.base import Backend, Box, BoxSpec, Capabilities
from executor_service.link.byte_streams import ByteStream

NAME = "frugal"


class FrugalBackend:
    """Has another backend make boxes, and caps their memory."""

    def __init__(self, inner: Backend, most_memory_bytes: int) -> None:
        self._inner = inner
        self._most_memory_bytes = most_memory_bytes

    async def probe(self) -> Capabilities:
        """What the other backend can do."""
        return replace(await self._inner.probe(), name=NAME)

    async def create(self, spec: BoxSpec) -> Box:
        """Make a box with as much memory as we can spare."""
        memory_bytes = min(spec.limits.memory_bytes, self._most_memory_bytes)
        limits = replace(spec.limits, memory_bytes=memory_bytes)
        return _ours(await self._inner.create(replace(spec, limits=limits)))

    async def connect(self, box: Box) -> ByteStream:
        """Open a stream to the box's supervisor."""
        return await self._inner.connect(box)

    async def destroy(self, box: Box) -> None:
        """Remove the box."""
        await self._inner.destroy(box)

    async def list_boxes(self) -> list[Box]:
        """The boxes that live."""
        return [_ours(box) for box in await self._inner.list_boxes()]

    async def close(self) -> None:
        """Let go of the other backend."""
        await self._inner.close()


def _ours(box: Box) -> Box:
    return replace(box, backend=NAME)
