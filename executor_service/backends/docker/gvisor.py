"""What is different in the boxes of an engine whose runtime is gVisor.

To the host such a box is one program, gVisor's kernel, with threads for the processes in it. So a
limit that the host enforces ends the whole box. A look into a box tells whether it is gVisor's.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, cast

from executor_service.errors import BoxCreateFailed
from executor_service.link.byte_streams import ByteStream
from services.lifecycle import Workers

if TYPE_CHECKING:
    import docker

BUILD = "#1 SMP Sun Jan 10 15:06:54 PST 2016"
"""The build date that its kernel reports in every release."""
_PIDS_FILE = "/sys/fs/cgroup/pids/pids.max"
_HOST_THREADS = 128
_HOST_THREADS_PER_PROCESS = 4
"""A sleeping process has two. An engine may fail to remove a box that ends with thousands."""
_END_FOLLOWS_S = 5
_ENGINE_KNOWS_WITHIN_S = 2.0


class BridgeStream:
    """A bridge's streams, which end when the engine says that the box has ended.

    A bridge may see the end of its box before the engine does. A new bridge would then block the
    engine for a second for each process of the box. A bridge may also never see the end, because
    the engine sometimes keeps the streams of a box that is gone.
    """

    def __init__(self, stream: ByteStream, until_ended: Callable[[], Awaitable[bool]]) -> None:
        """`until_ended` returns True once the box has ended, False if the engine does not say."""
        self._stream = stream
        self._workers = Workers()
        self._watching = self._workers.start("watch of a box", self._watch(until_ended))

    async def _watch(self, until_ended: Callable[[], Awaitable[bool]]) -> None:
        if await until_ended():
            await self._stream.close()

    async def read(self, n: int) -> bytes:
        """Read from the bridge, but report its end only once the box has ended."""
        data = await self._stream.read(n)
        if not data:
            await asyncio.wait([self._watching], timeout=_ENGINE_KNOWS_WITHIN_S)
        return data

    async def write(self, data: bytes | bytearray | memoryview) -> None:
        await self._stream.write(data)

    async def close(self) -> None:
        async with self._workers:
            await self._stream.close()


def host_pids(pids: int) -> int:
    """Return the host's limit for a box with so many processes; exceeding it ends the box."""
    return _HOST_THREADS + _HOST_THREADS_PER_PROCESS * pids


def limit_pids(sdk: "docker.DockerClient", container: str, pids: int) -> None:
    """Have the box's own kernel limit processes; fails with BoxCreateFailed. Blocks.

    Only root may set this limit, and commands never are root.
    """
    api = cast("Any", sdk.api)
    write = ["sh", "-c", f"echo {pids} > {_PIDS_FILE} && cat {_PIDS_FILE}"]
    command = api.exec_create(container, write, user="0", workdir="/")["Id"]
    said = api.exec_start(command).decode(errors="replace").strip()
    if said != str(pids):
        raise BoxCreateFailed(f"gVisor does not limit the processes of a box here: {said}")


def ran_out_of_memory(sdk: "docker.DockerClient", container: str) -> bool:
    """Whether a lack of memory ended a box, if the engine remembers it. Blocks up to a second."""
    asked = {"container": container, "event": ["oom", "die"]}
    until = int(time.time()) + 1
    events = cast("Any", sdk.api).events(since=0, until=until, filters=asked, decode=True)
    times = {event["Action"]: event["time"] for event in events}
    return "oom" in times and times.get("die", until) - times["oom"] <= _END_FOLLOWS_S
