"""Streams out of a box: in order, within their windows, bounded in number, believed in nothing."""

import asyncio
import itertools
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from executor_service.errors import BoxPoisoned, LinkClosed, ProxyRefused
from executor_service.link.link import SupervisorLink
from executor_service.link.streams import BoxStream
from executor_service.supervisor import frames
from tests.unit.executor.test_link import Supervisor, ended, pair

WINDOW = frames.STREAM_WINDOW_BYTES


@asynccontextmanager
async def listening() -> AsyncGenerator[tuple[Supervisor, SupervisorLink, list[BoxStream]]]:
    """A link whose box takes connections, of which one is open."""
    streams: list[BoxStream] = []
    async with pair() as (supervisor, link, _), asyncio.TaskGroup() as tasks:
        tasks.create_task(link.streams.listen(3128, {"http_proxy": "x"}, "", streams.append))
        ident, message = await supervisor.hear(frames.PROXY)
        assert message == {"port": 3128, "env": {"http_proxy": "x"}, "authority": ""}
        await supervisor.say(frames.PROXY_SET, ident, {"port": 3128})
        await supervisor.stream.write(opened(1))
        await answered(link, supervisor)
        yield supervisor, link, streams


def opened(ident: int) -> bytes:
    return frames.pack(frames.STREAM_OPENED, ident)


def sent(ident: int, offset: int, data: bytes) -> bytes:
    return frames.pack(frames.STREAM_BYTES, ident, frames.STREAM_HEAD.pack(offset) + data)


def taken(ident: int, offset: int) -> bytes:
    return frames.pack(frames.STREAM_TAKEN, ident, frames.STREAM_HEAD.pack(offset))


def gone(ident: int) -> bytes:
    return frames.pack(frames.STREAM_GONE, ident)


def window_of(ident: int, most: int = WINDOW) -> bytes:
    size = frames.MAX_DATA_BYTES
    return b"".join(sent(ident, offset, bytes(size)) for offset in range(0, most, size))


async def heard(supervisor: Supervisor, kind: int) -> bytes:
    async with asyncio.timeout(5):
        return (await supervisor.hear(kind))[1]["raw"]


async def answered(link: SupervisorLink, supervisor: Supervisor) -> None:
    """Everything that the box has said before has been taken."""
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(link.ping(5))
        ident, _ = await supervisor.hear(frames.PING)
        await supervisor.say(frames.PONG, ident, {})


async def test_what_is_read_makes_room_for_more() -> None:
    async with listening() as (supervisor, _, streams):
        await supervisor.stream.write(sent(1, 0, b"hello") + sent(1, 5, b" you"))
        assert await streams[0].read(4) == b"hell"
        assert struct.unpack("!Q", await heard(supervisor, frames.STREAM_ACK)) == (4,)
        assert await streams[0].read(9) == b"o you"
        await supervisor.stream.write(frames.pack(frames.STREAM_ENDED, 1))
        assert await streams[0].read(9) == b""


async def test_a_write_waits_for_the_command_to_read() -> None:
    async with listening() as (supervisor, _, streams):
        writing = asyncio.create_task(streams[0].write(bytes(WINDOW + 1)))
        for offset in range(0, WINDOW, frames.MAX_DATA_BYTES):
            data = await heard(supervisor, frames.STREAM_DATA)
            assert struct.unpack("!Q", data[:8]) == (offset,)
        done, _ = await asyncio.wait({writing}, timeout=0.05)
        assert not done
        await supervisor.stream.write(taken(1, 1))
        assert len(await heard(supervisor, frames.STREAM_DATA)) == 8 + 1
        await writing


async def test_a_close_waits_until_the_command_has_read_all() -> None:
    async with listening() as (supervisor, _, streams):
        await streams[0].write(b"bye")
        closing = asyncio.create_task(streams[0].close())
        assert await heard(supervisor, frames.STREAM_END) == b""
        done, _ = await asyncio.wait({closing}, timeout=0.05)
        assert not done
        await supervisor.stream.write(taken(1, 3) + frames.pack(frames.STREAM_ENDED, 1) + gone(1))
        assert await heard(supervisor, frames.STREAM_RESET) == b""
        await closing
        with pytest.raises(LinkClosed):
            await streams[0].write(b"more")


async def test_what_came_before_a_reset_is_not_read_after_it() -> None:
    async with listening() as (supervisor, link, streams):
        await supervisor.stream.write(window_of(1))
        await answered(link, supervisor)
        streams[0].reset()
        assert await streams[0].read(9) == b""
        # What the box sent before it heard of that is no lie; its place is free after that.
        await supervisor.stream.write(taken(1, 0) + gone(1) + opened(2))
        await answered(link, supervisor)
        assert [stream.ident for stream in streams] == [1, 2]


async def test_nothing_connects_while_nothing_is_allowed() -> None:
    async with listening() as (supervisor, link, streams), asyncio.TaskGroup() as tasks:
        tasks.create_task(link.streams.stop())
        ident, message = await supervisor.hear(frames.PROXY)
        assert message == {"port": 0}
        await supervisor.stream.write(opened(2))
        assert await heard(supervisor, frames.STREAM_RESET) == b""
        await supervisor.say(frames.PROXY_SET, ident, {"port": 0})
        assert len(streams) == 1


async def test_a_port_that_is_taken_is_an_error() -> None:
    async with pair() as (supervisor, link, _):
        waiting = asyncio.create_task(link.streams.listen(3128, {}, "", lambda _: None))
        ident, _ = await supervisor.hear(frames.PROXY)
        await supervisor.say(frames.PROXY_SET, ident, {"port": 0, "error": "port 3128 is in use"})
        with pytest.raises(ProxyRefused, match="3128 is in use"):
            await waiting


async def test_streams_end_with_the_link() -> None:
    async with listening() as (supervisor, link, streams):
        reading = asyncio.create_task(streams[0].read(9))
        writing = asyncio.create_task(streams[0].write(bytes(2 * WINDOW)))
        await supervisor.stream.close()
        assert isinstance(await ended(link), LinkClosed)
        assert await reading == b""
        with pytest.raises(LinkClosed):
            await writing
        with pytest.raises(LinkClosed):
            await link.streams.stop()


LIES = {
    "a stream again": opened(1),
    "a stream of an old number": opened(5) + gone(5) + opened(4),
    "streams without end": b"".join(map(opened, range(2, frames.MAX_STREAMS + 2))),
    "bytes with a gap": sent(1, 1, b"x"),
    "bytes twice": sent(1, 0, b"x") * 2,
    "no bytes": sent(1, 0, b""),
    "bytes after the end": frames.pack(frames.STREAM_ENDED, 1) + sent(1, 0, b"x"),
    "two ends": frames.pack(frames.STREAM_ENDED, 1) * 2,
    "bytes of nobody": sent(9, 0, b"x"),
    "bytes after the last word": gone(1) + sent(1, 0, b"x"),
    "a short frame": frames.pack(frames.STREAM_BYTES, 1, b"\0"),
    "more than the window": window_of(1, WINDOW + 1),
    "taken what was not sent": taken(1, 1),
    "an unasked answer": frames.pack_json(frames.PROXY_SET, 9, {"port": 0}),
    "an answer of nothing": frames.pack_json(frames.PROXY_SET, 1, {}),
}


@pytest.mark.parametrize("lie", list(LIES))
async def test_a_lie_about_streams_poisons_the_link(lie: str) -> None:
    async with listening() as (supervisor, link, streams):
        await supervisor.stream.write(LIES[lie])
        assert isinstance(await ended(link), BoxPoisoned)
        with pytest.raises(BoxPoisoned):
            await streams[0].write(b"x")


async def test_a_box_that_asks_and_never_listens_is_given_up() -> None:
    """It opens and ends streams, and reads none of the answers that it causes."""
    async with listening() as (supervisor, link, _):
        churn = asyncio.create_task(_churn(supervisor))
        with pytest.raises(LinkClosed):
            await churn
        assert isinstance(await ended(link), BoxPoisoned)


async def _churn(supervisor: Supervisor) -> None:
    for first in itertools.count(2, 1000):
        numbers = range(first, first + 1000)
        await supervisor.stream.write(b"".join(opened(n) + gone(n) for n in numbers))
