"""The link believes nothing that a supervisor says without a check, and ends cleanly."""

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from executor_service.errors import BoxPoisoned, ExecutorError, LinkClosed, LinkRefused
from executor_service.link.byte_streams import SocketStream
from executor_service.link.exec_handle import ExecHandle
from executor_service.link.link import Hello, SupervisorLink, open_link
from executor_service.link.messages import StartCommand
from executor_service.supervisor import frames
from executor_service.supervisor.frames import FrameReader
from tests.support.boxes import Recorder

EXIT = {
    "code": 0,
    "signal": None,
    "reason": "EXITED",
    "totals": [0, 0],
    "survivors": 0,
    "duration_ms": 1,
}
COMMAND = {
    "exec_id": "exc_a",
    "digest": "d",
    "state": "running",
    "acked": [0, 0],
    "stdin_received": 0,
    "stdin_taken": 0,
}


_BINARY = {
    *(frames.ACK, frames.STDIN, frames.FORGET, frames.PING),
    *(frames.STREAM_DATA, frames.STREAM_ACK, frames.STREAM_END, frames.STREAM_RESET),
}


class Supervisor:
    """The other end of a link, spoken by hand."""

    def __init__(self, stream: SocketStream) -> None:
        self.stream = stream
        self._reader = FrameReader(frames.REQUESTS, frames.MAX_REQUEST_BYTES)
        self._heard: list[tuple[int, int, bytes]] = []

    async def hear(self, kind: int) -> tuple[int, dict[str, Any]]:
        """The next request of a kind, others skipped."""
        while True:
            while self._heard:
                heard, ident, payload = self._heard.pop(0)
                if heard == kind:
                    binary = kind in _BINARY
                    return ident, {"raw": payload} if binary else frames.read_json(payload)
            data = await self.stream.read(1 << 20)
            assert data, "the link has hung up"
            self._heard += [(k, i, bytes(p)) for k, i, p in self._reader.feed(data)]

    async def say(self, kind: int, ident: int, message: dict[str, Any]) -> None:
        await self.stream.write(frames.pack_json(kind, ident, message))

    async def output(self, ident: int, fd: int, offset: int, data: bytes) -> None:
        head = frames.OUTPUT_HEAD.pack(fd, offset)
        await self.stream.write(frames.pack(frames.OUTPUT, ident, head + data))

    async def welcome(self, **commands: dict[str, Any]) -> None:
        await self.hear(frames.HELLO)
        for number, changes in enumerate(commands.values(), start=1):
            await self.say(frames.COMMAND, number, {**COMMAND, **changes})
        await self.say(frames.READY, 0, {"version": 1, "commands": len(commands)})


Recorders = list[Recorder]


@asynccontextmanager
async def pair(
    acked: dict[str, tuple[int, int]] | None = None, **commands: dict[str, Any]
) -> AsyncGenerator[tuple[Supervisor, SupervisorLink, Recorders]]:
    """A supervisor that knows these commands, and a link to it."""
    ours, theirs = socket.socketpair()
    supervisor = Supervisor(SocketStream(theirs))
    recorders: Recorders = []

    def adopt(command: ExecHandle) -> Recorder:
        recorders.append(Recorder(command, acknowledges=False))
        return recorders[-1]

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(supervisor.welcome(**commands))
        hello = Hello("box", "secret", 1, acked or {})
        try:
            async with open_link(SocketStream(ours), hello, adopt) as link:
                yield supervisor, link, recorders
        finally:
            await supervisor.stream.close()


async def ended(link: SupervisorLink) -> ExecutorError:
    async with asyncio.timeout(5):
        return await link.wait_ended()


async def test_hello_says_who_we_are_and_what_we_have() -> None:
    ours, theirs = socket.socketpair()
    supervisor = Supervisor(SocketStream(theirs))
    hello = Hello("box_1", "s3cret", 7, {"exc_a": (3, 4)}, orphan_timeout_s=30.0)

    async def listen() -> dict[str, Any]:
        _, message = await supervisor.hear(frames.HELLO)
        await supervisor.say(frames.READY, 0, {"version": 1, "commands": 0})
        return message

    async with asyncio.TaskGroup() as tasks:
        heard = tasks.create_task(listen())
        async with open_link(SocketStream(ours), hello, lambda _: None):
            assert await heard == {
                "version": frames.PROTOCOL_VERSION,
                "box": "box_1",
                "secret": "s3cret",
                "epoch": 7,
                "orphan_timeout_s": 30.0,
                "acked": {"exc_a": [3, 4]},
            }
    assert "s3cret" not in repr(hello)
    await supervisor.stream.close()


async def test_a_refusal_is_an_error_with_its_reason() -> None:
    ours, theirs = socket.socketpair()
    supervisor = Supervisor(SocketStream(theirs))

    async def refuse() -> None:
        await supervisor.hear(frames.HELLO)
        await supervisor.say(frames.DENIED, 0, {"reason": "STALE_EPOCH"})

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(refuse())
        with pytest.raises(LinkRefused) as refused:
            async with open_link(SocketStream(ours), Hello("b", "s", 1), lambda _: None):
                pass
    assert refused.value.reason == "STALE_EPOCH"
    await supervisor.stream.close()


async def test_the_end_of_the_stream_ends_the_link_and_tells_everyone() -> None:
    async with pair(a={}) as (supervisor, link, recorders):
        starting = asyncio.gather(
            link.start(StartCommand("exc_b", ("true",)), lambda _: None),
            link.ping(5),
            link.files.stat("x"),
            recorders[0].command.write_stdin(0, b"x" * (1 << 20)),
            return_exceptions=True,
        )
        await supervisor.hear(frames.START)
        await supervisor.stream.close()
        assert isinstance(await ended(link), LinkClosed)
        assert all(isinstance(error, LinkClosed) for error in await starting)
        assert isinstance(recorders[0].errors[0], LinkClosed)
        with pytest.raises(LinkClosed):
            await link.start(StartCommand("exc_c", ("true",)), lambda _: None)


async def test_output_goes_on_where_hello_said() -> None:
    async with pair({"exc_a": (5, 0)}, a={"acked": [5, 0]}) as (supervisor, _, recorders):
        await supervisor.output(1, 1, 5, b"more")
        await recorders[0].until(lambda r: r.stdout == "more")
        recorders[0].command.ack(1, 9)
        _, ack = await supervisor.hear(frames.ACK)
        assert frames.OUTPUT_HEAD.unpack(ack["raw"]) == (1, 9)


async def test_what_has_ended_has_said_how_before_the_link_is_up() -> None:
    ours, theirs = socket.socketpair()
    supervisor = Supervisor(SocketStream(theirs))
    recorders: dict[str, Recorder] = {}

    def adopt(command: ExecHandle) -> Recorder:
        return recorders.setdefault(command.exec_id, Recorder(command, acknowledges=False))

    async def serve() -> None:
        ended = {"exec_id": "ended", "state": "finished"}
        await supervisor.welcome(a=ended, b={"exec_id": "runs"})
        await asyncio.sleep(0.05)
        await supervisor.output(1, 1, 0, b"late")
        await supervisor.say(frames.EXITED, 1, {**EXIT, "code": 3, "totals": [4, 0]})

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(serve())
        async with open_link(SocketStream(ours), Hello("box", "secret", 1), adopt):
            exit_ = recorders["ended"].command.exit
            assert exit_ is not None
            assert (exit_.code, recorders["ended"].stdout) == (3, "late")
            assert recorders["runs"].command.exit is None
    await supervisor.stream.close()


async def test_only_what_was_received_can_be_acknowledged() -> None:
    async with pair(a={}) as (supervisor, _, recorders):
        await supervisor.output(1, 1, 0, b"12345")
        await recorders[0].until(lambda r: bool(r.stdout))
        with pytest.raises(ValueError, match="acknowledged"):
            recorders[0].command.ack(1, 6)
        recorders[0].command.ack(1, 5)
        with pytest.raises(ValueError, match="acknowledged"):
            recorders[0].command.ack(1, 4)


def say(kind: int, ident: int, **message: Any) -> bytes:
    return frames.pack_json(kind, ident, message)


def output(ident: int, fd: int, offset: int, data: bytes) -> bytes:
    return frames.pack(frames.OUTPUT, ident, frames.OUTPUT_HEAD.pack(fd, offset) + data)


LIES = {
    "noise": b"\0" * 100,
    "a request": frames.pack(frames.FORGET, 1),
    "output with a gap": output(1, 1, 1, b"x"),
    "output twice": output(1, 1, 0, b"x") * 2,
    "output that goes back": output(1, 1, 0, b"xx") + output(1, 1, 1, b"x"),
    "empty output": output(1, 1, 0, b""),
    "output of no stream": output(1, 3, 0, b"x"),
    "output of no command": output(9, 1, 0, b"x"),
    "truncated output": frames.pack(frames.OUTPUT, 1, b"\1"),
    "output after the exit": say(frames.EXITED, 1, **EXIT) + output(1, 1, 0, b"x"),
    "a second exit": say(frames.EXITED, 1, **EXIT) * 2,
    "totals that do not fit": say(frames.EXITED, 1, **{**EXIT, "totals": [1, 0]}),
    "negative totals": say(frames.EXITED, 1, **{**EXIT, "totals": [0, -1]}),
    "totals that are no numbers": say(frames.EXITED, 1, **{**EXIT, "totals": [0, True]}),
    "an exit without a reason": say(frames.EXITED, 1, code=0, totals=[0, 0]),
    "an unknown reason": say(frames.EXITED, 1, **{**EXIT, "reason": "BORED"}),
    "an impossible code": say(frames.EXITED, 1, **{**EXIT, "code": 256}),
    "a huge number": say(frames.EXITED, 1, **{**EXIT, "duration_ms": 1 << 80}),
    "input taken that was not sent": frames.pack(
        frames.STDIN_ACK, 1, frames.STDIN_ACK_BODY.pack(1)
    ),
    "a command out of the blue": say(frames.COMMAND, 7, **{**COMMAND, "exec_id": "exc_x"}),
    "a command again": say(frames.COMMAND, 1, **COMMAND),
    "a second welcome": say(frames.READY, 0, version=1, commands=1),
    "a late refusal": say(frames.DENIED, 0, reason="STALE_EPOCH"),
    "a start that failed for a running command": say(
        frames.START_FAILED, 1, code="FAILED", message=""
    ),
    "a start that failed for nobody": say(frames.START_FAILED, 9, code="FAILED", message=""),
    "an unasked pong": say(frames.PONG, 3),
    "an unasked file": frames.pack(frames.FILE_BYTES, 3, frames.FILE_HEAD.pack(0) + b"x"),
    "an unasked answer": say(frames.FILE_DONE, 3),
    "deep nesting": frames.pack(frames.EXITED, 1, b"[" * 60_000),
    "a flood past the window": b"".join(
        output(1, 1, n * frames.MAX_OUTPUT_BYTES, bytes(frames.MAX_OUTPUT_BYTES)) for n in range(7)
    ),
}


@pytest.mark.parametrize("lie", list(LIES))
async def test_a_lie_poisons_the_link(lie: str) -> None:
    async with pair(a={}) as (supervisor, link, recorders):
        await supervisor.stream.write(LIES[lie])
        assert isinstance(await ended(link), BoxPoisoned)
        if recorders[0].command.exit is None:
            assert isinstance(recorders[0].errors[0], BoxPoisoned)
        with pytest.raises(BoxPoisoned):
            await link.ping(1)


@pytest.mark.parametrize(
    "answer",
    [
        say(frames.COMMAND, 1, **{**COMMAND, "acked": [4, 0]}),
        say(frames.COMMAND, 1, **COMMAND) * 2,
        say(frames.COMMAND, 1, **{**COMMAND, "state": "dreaming"}),
        say(frames.COMMAND, 1, **{**COMMAND, "exec_id": 5}),
        say(frames.COMMAND, 1 << 31 | 1, **{**COMMAND, "exec_id": "b"}),
        say(frames.READY, 0, version=1, commands=1),
        output(1, 1, 0, b"early"),
    ],
)
async def test_a_lie_in_the_welcome_poisons_the_link(answer: bytes) -> None:
    ours, theirs = socket.socketpair()
    supervisor = Supervisor(SocketStream(theirs))
    await supervisor.stream.write(answer)
    hello = Hello("box", "secret", 1, {"exc_a": (5, 0)})
    with pytest.raises(BoxPoisoned):
        async with open_link(SocketStream(ours), hello, lambda _: None):
            pass
    await supervisor.stream.close()


FILE_LIES = {
    "bytes with a gap": frames.pack(frames.FILE_BYTES, 2, frames.FILE_HEAD.pack(1) + b"x"),
    "no bytes": frames.pack(frames.FILE_BYTES, 2, frames.FILE_HEAD.pack(0)),
    "a wrong end": say(frames.FILE_DONE, 2, end=1, type="file", size=0, mode=0, mtime_ns=0),
    "no end": say(frames.FILE_DONE, 2, type="file", size=0, mode=0, mtime_ns=0),
    "a strange type": say(frames.FILE_DONE, 2, end=0, type="elf", size=0, mode=0, mtime_ns=0),
    "a failure without a code": say(frames.FILE_FAILED, 2, message="no"),
    "more than the window": b"".join(
        frames.pack(frames.FILE_BYTES, 2, frames.FILE_HEAD.pack(n * 65536) + bytes(65536))
        for n in range(9)
    ),
}


@pytest.mark.parametrize("lie", list(FILE_LIES))
async def test_a_lie_about_a_file_poisons_the_link(lie: str) -> None:
    async with pair(a={}) as (supervisor, link, _), link.files.download("x"):
        await supervisor.hear(frames.FILE)
        await supervisor.stream.write(FILE_LIES[lie])
        assert isinstance(await ended(link), BoxPoisoned)


async def test_a_name_that_is_a_path_poisons_the_link() -> None:
    info = {"type": "file", "size": 0, "mode": 0, "mtime_ns": 0}
    async with pair(a={}) as (supervisor, link, _):
        listing = asyncio.gather(link.files.list_directory("."), return_exceptions=True)
        ident, _ = await supervisor.hear(frames.FILE)
        entries = [{"name": "../../etc/passwd", **info}]
        await supervisor.say(frames.FILE_DONE, ident, {"entries": entries, "more": False})
        assert isinstance((await listing)[0], BoxPoisoned)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(sorted(frames.REPLIES)),
            st.integers(0, 4),
            st.one_of(
                st.binary(max_size=40),
                st.dictionaries(
                    st.sampled_from([*EXIT, *COMMAND, "code", "message", "end", "commands"]),
                    st.recursive(
                        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
                        lambda inner: st.lists(inner, max_size=3),
                        max_leaves=4,
                    ),
                    max_size=8,
                ),
            ),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_well_formed_nonsense_ends_at_most_the_link(
    said: list[tuple[int, int, bytes | dict[str, Any]]],
) -> None:
    async def scenario() -> None:
        async with pair(a={}) as (supervisor, link, _):
            for kind, ident, payload in said:
                packed = (
                    frames.pack(kind, ident, payload)
                    if isinstance(payload, bytes)
                    else frames.pack_json(kind, ident, payload)
                )
                await supervisor.stream.write(packed)
            await supervisor.stream.close()
            assert isinstance(await ended(link), BoxPoisoned | LinkClosed)

    asyncio.run(scenario())
