"""When the end of a box behind gVisor is told."""

from executor_service.backends.docker_gvisor import BridgeStream


class EndedStream:
    """A bridge that has ended."""

    async def read(self, n: int) -> bytes:
        return b""

    async def write(self, data: bytes | bytearray | memoryview) -> None:
        raise AssertionError(data)

    async def close(self) -> None:
        pass


async def test_an_end_is_told_once_the_engine_knows_of_it() -> None:
    answers = [True, True, False]

    async def runs() -> bool:
        return answers.pop(0)

    assert await BridgeStream(EndedStream(), runs).read(1) == b""
    assert answers == []


async def test_whoever_has_closed_it_waits_for_no_engine() -> None:
    async def runs() -> bool:
        raise AssertionError("nobody has to ask")

    stream = BridgeStream(EndedStream(), runs)
    await stream.close()
    assert await stream.read(1) == b""
