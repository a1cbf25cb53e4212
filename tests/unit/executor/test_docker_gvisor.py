"""When the end of a box behind gVisor is told."""

import asyncio

from executor_service.backends.docker.gvisor import BridgeStream


class Bridge:
    """Streams that end when they are told to."""

    def __init__(self) -> None:
        self.over = asyncio.Event()

    async def read(self, n: int) -> bytes:
        await self.over.wait()
        return b""

    async def write(self, data: bytes | bytearray | memoryview) -> None:
        raise AssertionError(data)

    async def close(self) -> None:
        self.over.set()


async def test_an_end_is_told_once_the_engine_knows_of_it() -> None:
    bridge, known = Bridge(), asyncio.Event()
    stream = BridgeStream(bridge, known.wait)
    await bridge.close()
    reading = asyncio.ensure_future(stream.read(1))
    await asyncio.wait([reading], timeout=0.1)
    assert not reading.done()
    known.set()
    assert await reading == b""
    await stream.close()


async def test_an_end_that_the_bridge_does_not_hear_is_told() -> None:
    known = asyncio.Event()
    stream = BridgeStream(Bridge(), known.wait)
    reading = asyncio.ensure_future(stream.read(1))
    await asyncio.wait([reading], timeout=0.1)
    assert not reading.done()
    known.set()
    async with asyncio.timeout(5):
        assert await reading == b""
    await stream.close()


async def test_whoever_closes_it_waits_for_no_engine() -> None:
    stream = BridgeStream(Bridge(), asyncio.Event().wait)
    reading = asyncio.ensure_future(stream.read(1))
    await asyncio.sleep(0)
    async with asyncio.timeout(1):
        await stream.close()
        assert await reading == b""
