"""Commands over links that come and go."""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import pytest

from executor_service.errors import SandboxLost, StartRefused
from executor_service.execs.command import Command
from executor_service.link.messages import StartCommand
from executor_service.records.sandboxes import EndReason
from executor_service.servicer.attachments import CommandView, Event
from hermes.executor.v1 import exec_pb2
from services.errors import AlreadyExists, NotFound, Unavailable
from tests.integration.executor.core import full_disk, open_core, start
from tests.support.executors import until

COUNTER = "import time\nfor n in range(300): print(n, flush=True); time.sleep(0.005)"
COUNTED = "".join(f"{n}\n" for n in range(300)).encode()


async def output_of(command: Command) -> bytes:
    """What a command writes until it ends."""
    view, said, ended = CommandView(command, 0, 0), bytearray(), False
    async for event in view.events():
        assert not ended
        if event.HasField("output"):
            assert event.output.offset == len(said)
            said += event.output.data
        ended = event.HasField("exited")
    assert ended
    return bytes(said)


async def test_a_command_outlives_its_links(tmp_path: Path) -> None:
    async with open_core(tmp_path) as core:
        grant = await core.acquire()
        command = await start(grant, "python3", "-uc", COUNTER)
        watching = asyncio.ensure_future(output_of(command))
        for _ in range(6):
            await asyncio.sleep(0.1)
            await core.backend.cut()
        assert await watching == COUNTED
        ended = command.record.exit
        assert ended is not None
        assert (ended.reason, ended.code, ended.totals[0]) == (EndReason.EXITED, 0, len(COUNTED))


async def test_what_is_asked_for_while_there_is_no_link_waits_for_one(tmp_path: Path) -> None:
    async with open_core(tmp_path) as core:
        grant = await core.acquire()
        first = await start(grant, "sleep", "60")
        await core.backend.cut()
        second = asyncio.ensure_future(start(grant, "echo", "hello"))
        first.cancel()
        assert await output_of(await second) == b"hello\n"
        async with asyncio.timeout(10):
            await first.ended.wait()
        assert first.record.exit is not None
        assert first.record.exit.reason is EndReason.CANCELLED


async def test_many_starts_at_once_are_one_start_each(tmp_path: Path) -> None:
    script = 'echo x >> "$0"; sleep 0.1'
    async with open_core(tmp_path) as core:
        grant = await core.acquire()

        async def begin(number: int) -> Command:
            return await start(grant, "sh", "-c", script, f"log{number}", exec_id=f"c{number}")

        starting = [asyncio.ensure_future(begin(n % 10)) for n in range(40)]
        for _ in range(3):
            await asyncio.sleep(0.02)
            await core.backend.cut()
        commands = {command.exec_id: command for command in await asyncio.gather(*starting)}
        for command in commands.values():
            await command.ended.wait()
        workspace = Path(grant.sandbox.claim.workspace)
        logs = await asyncio.to_thread(lambda: [p.read_text() for p in workspace.glob("log*")])
        assert logs == ["x\n"] * 10


async def test_who_leaves_while_a_command_starts_leaves_a_command(tmp_path: Path) -> None:
    async with open_core(tmp_path) as core:
        grant = await core.acquire()
        leaving = asyncio.ensure_future(start(grant, "echo", "done", exec_id="x"))
        await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.wait([leaving])
        again = await start(grant, "echo", "done", exec_id="x")
        assert await output_of(again) == b"done\n"


async def test_another_shell_is_run_where_the_first_is_not_there(tmp_path: Path) -> None:
    async with open_core(tmp_path) as core:
        connection = (await core.acquire()).sandbox.get_connection()
        request = StartCommand("x", ("no-bash", "-c", "echo hi"), fallback="sh")
        command = await connection.start(request)
        assert await output_of(command) == b"hi\n"
        assert await connection.start(request) is command
        with pytest.raises(AlreadyExists):
            await connection.start(StartCommand("x", ("sh", "-c", "echo hi")))
        with pytest.raises(StartRefused):
            await connection.start(StartCommand("y", ("no-bash", "-c", ""), fallback="no-sh"))
        with pytest.raises(NotFound):
            await connection.commands.get("y")


async def test_a_lost_box_ends_everything_that_waits_for_it(tmp_path: Path) -> None:
    async with open_core(tmp_path) as core:
        grant = await core.acquire()
        running = await start(grant, "sleep", "60")
        core.backend.kill(grant.sandbox.claim.sandbox_id)
        async with asyncio.timeout(10):
            await running.ended.wait()
        with pytest.raises(SandboxLost):
            await start(grant, "true")
        assert running.record.exit is not None
        assert running.record.exit.reason is EndReason.SANDBOX_LOST


async def test_input_goes_on_over_a_new_link(tmp_path: Path) -> None:
    async with open_core(tmp_path) as core:
        grant = await core.acquire()
        box = grant.sandbox.get_connection()
        command = await box.start(StartCommand("x", ("cat",), stdin=True))
        await command.write_input(0, b"one ")
        await until(lambda: command.input_taken == 4)
        # What is still on its way when the link breaks is lost, and its sender told so.
        events = await events_of_a_sender(command)
        await core.backend.cut()
        await command.write_input(4, b"lost")
        with pytest.raises(Unavailable, match="continue the input"):
            [event async for event in events]
        assert (command.input_offset, command.input_losses) == (4, 1)
        with pytest.raises(Unavailable):
            await command.write_input(5, b"gap")
        await command.write_input(0, b"one two ")
        await command.write_input(None, b"", ends=True)
        assert await output_of(command) == b"one two "


async def events_of_a_sender(command: Command) -> AsyncGenerator[Event, None]:
    """What somebody sees who gives a command its input."""
    view = CommandView(command, 0, 0)
    view.gives_input = True
    events = view.events()
    await anext(events)
    return events


async def test_a_view_says_first_where_input_goes_on(tmp_path: Path) -> None:
    async with open_core(tmp_path) as core:
        grant = await core.acquire()
        box = grant.sandbox.get_connection()
        command = await box.start(StartCommand("x", ("cat",), stdin=True))
        await command.write_input(0, b"12345")
        events = CommandView(command, 5, 0).events()
        assert await anext(events) == Event(stdin_ack_offset=5)
        await command.write_input(5, b"6")
        following = [await anext(events), await anext(events)]
        assert Event(stdin_ack_offset=6) in following
        output = Event.Output(stream=exec_pb2.OUTPUT_STREAM_STDOUT, offset=5, data=b"6")
        assert Event(output=output) in following
        await events.aclose()
        command.cancel()
        await command.ended.wait()


async def test_a_view_says_what_a_command_read_before_it_ended(tmp_path: Path) -> None:
    async with open_core(tmp_path) as core:
        grant = await core.acquire()
        request = StartCommand("x", ("sh", "-c", "read line"), stdin=True)
        command = await grant.sandbox.get_connection().start(request)
        async with aclosing(CommandView(command, 0, 0).events()) as events:
            assert await anext(events) == Event(stdin_ack_offset=0)
            await command.write_input(0, b"line\n")
            await command.ended.wait()
            assert await anext(events) == Event(stdin_ack_offset=5)
            assert (await anext(events)).HasField("exited")


async def test_old_commands_leave_memory_and_are_still_known(tmp_path: Path) -> None:
    async with open_core(tmp_path) as core:
        grant = await core.acquire()
        table = await grant.sandbox.commands()
        first = await start(grant, "echo", "first", exec_id="first")
        for number in range(40):
            await (await start(grant, "true", exec_id=f"c{number}")).ended.wait()

        async def is_stored() -> bool:
            return await table.get("first") is not first

        await until(is_stored)
        again = await table.get("first")
        assert again.record == first.record
        assert await output_of(again) == b"first\n"
        assert len(table.list()) == 41
        assert (await start(grant, "echo", "first", exec_id="first")).record == first.record
        with pytest.raises(AlreadyExists):
            await start(grant, "echo", "other", exec_id="first")
        # A new link does not bring it back either.
        await core.backend.cut()
        assert (await start(grant, "echo", "first", exec_id="first")).record == first.record


async def test_a_box_forgets_what_is_stored(tmp_path: Path) -> None:
    async with open_core(tmp_path) as core:
        grant = await core.acquire()
        for number in range(5):
            await (await start(grant, "echo", str(number))).ended.wait()
        link = await grant.sandbox.get_connection().link()
        await until(lambda: not link.commands)
        assert link.error is None


async def test_what_a_box_could_not_be_told_to_forget_is_counted_once(tmp_path: Path) -> None:
    async with open_core(tmp_path) as core:
        grant = await core.acquire()
        table = await grant.sandbox.commands()
        fifo = Path(grant.sandbox.claim.workspace) / "fifo"
        await asyncio.to_thread(os.mkfifo, fifo)
        commands = [await start(grant, "cat", "fifo", exec_id=f"c{n}") for n in range(50)]
        core.backend.reachable.clear()

        async def have_ended() -> bool:
            # Whoever reads by now comes to the end of it.
            await asyncio.to_thread(lambda: os.close(os.open(fifo, os.O_RDWR)))
            return all(command.ended.is_set() for command in commands)

        with full_disk():
            await until(have_ended)
            # They are noted while there is no link, and the box tells of them again over the next.
            await core.backend.cut()

        async def are_noted() -> bool:
            return len([one for one in await core.journal.commands() if one.ended_at]) == 50

        await until(are_noted)
        core.backend.reachable.set()
        link = await grant.sandbox.get_connection().link()
        await until(lambda: not link.commands)
        known = {record.exec_id: record for record in table.list()}
        assert known == {command.exec_id: command.record for command in commands}
        assert core.metric("hermes_exec_exits_total", backend="plain", reason="exited") == 50


async def test_a_new_link_waits_until_the_output_of_the_old_one_is_safe(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    async with open_core(tmp_path) as core:
        await asyncio.to_thread(spool.write_text, "in the way")
        grant = await core.acquire()
        command = await start(grant, "sh", "-c", "echo one; sleep 0.2; echo two")
        await until(lambda: command.spool.end(1) >= 4)
        await core.backend.cut()
        await asyncio.sleep(0.3)
        assert len(core.backend.streams) == 0
        assert command.record.exit is None
        await asyncio.to_thread(spool.unlink)
        assert await output_of(command) == b"one\ntwo\n"
