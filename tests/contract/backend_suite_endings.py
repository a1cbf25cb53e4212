"""What every backend promises of the end of commands: nothing of one is left, and it says why."""

import asyncio
import re
import signal
import time

import pytest

from executor_service.backends.base import MIB, Box, Enforcement
from executor_service.errors import BoxLost, LinkClosed
from executor_service.records.sandboxes import EndReason, Exit, Isolation
from tests.support.boxes import BOMB, SMALL, Console, Yard, odd_seconds, open_console

ESCAPES = {
    "child": "sleep 7001",
    "background": "sleep 7001 & sleep 7001",
    "nohup": "nohup sleep 7001 >/dev/null 2>&1 & sleep 7001",
    "new session": "setsid sleep 7001 & sleep 7001",
    "double fork": "(setsid sh -c 'sleep 7001 & sleep 7001 &' &) ; sleep 7001",
    "clean environment": "env -i /usr/bin/setsid /bin/sleep 7001 & sleep 7001",
    "all at once": "(env -i /usr/bin/setsid /bin/sh -c '/bin/sleep 7001 & exit 0' &) ; sleep 7001",
    "deaf": "trap '' TERM HUP INT; sleep 7001; sleep 7001",
    "stopped": "sh -c 'kill -STOP $$' & sleep 7001",
    "deaf daemon": "setsid sh -c \"trap '' TERM; sleep 7001; sleep 7001\" & sleep 7001",
}


ODD = odd_seconds()
"""A box may share its machine with others, where somebody else's commands sleep as well."""


def oddly(script: str) -> str:
    """The script with sleeps that are told from anybody else's."""
    return re.sub(r"sleep (?=70)", f"sleep {ODD}", script)


async def names_of_others(console: Console) -> list[str]:
    """The command lines of all our processes that sleep."""
    script = "for p in /proc/[0-9]*/cmdline; do tr '\\0' ' ' < $p; echo; done 2>/dev/null"
    lines = (await console.output(script)).splitlines()
    ours = [line.split("/")[-1].strip() for line in lines if f"sleep {ODD}70" in line]
    return [line.replace(ODD, "") for line in ours]


async def crowd(console: Console) -> Exit:
    """How a command ends that has more processes than the box may have, and is cancelled."""
    many = SMALL.pids + 16
    script = f"i=0; while [ $i -lt {many} ]; do setsid sleep 7009 & i=$((i+1)); done"
    recorder = await console.shell(oddly(f"{script}; echo full; wait"))
    await recorder.until(lambda r: "full" in r.stdout)
    for _ in range(20):
        if (await names_of_others(console)).count("sleep 7009") == many:
            break
    else:
        pytest.fail(f"{many} processes are not there")
    recorder.command.cancel(grace_s=0)
    exit_ = await recorder.exit()
    assert not await names_of_others(console)
    return exit_


async def check_lost(yard: Yard, box: Box) -> None:
    """The box is known to be gone, after a moment."""
    async with asyncio.timeout(10):
        while True:
            try:
                await (await yard.backend.connect(box)).close()
            except BoxLost:
                return
            except LinkClosed:
                await asyncio.sleep(0.1)


class EndingSuite:
    """Run against each backend by tests/contract/test_backends.py."""

    @pytest.mark.parametrize("escape", list(ESCAPES))
    async def test_a_timeout_ends_the_whole_tree(self, console: Console, escape: str) -> None:
        started = time.monotonic()
        recorder = await console.shell(oddly(ESCAPES[escape]), run_timeout_s=0.3, kill_grace_s=0.2)
        exit_ = await recorder.exit()
        assert exit_.reason is EndReason.TIMEOUT
        assert exit_.survivors == 0
        assert time.monotonic() - started < 0.3 + 0.2 + 1
        assert not await names_of_others(console)

    async def test_a_command_with_manners_may_clean_up(self, console: Console) -> None:
        recorder = await console.shell(
            "trap 'sleep 0.2; echo cleaned; exit 3' TERM; echo ready; while :; do sleep 0.01; done",
            kill_grace_s=5,
        )
        await recorder.until(lambda r: "ready" in r.stdout)
        recorder.command.cancel()
        exit_ = await recorder.exit()
        assert (exit_.code, exit_.reason) == (3, EndReason.CANCELLED)
        assert recorder.stdout == "ready\ncleaned\n"

    async def test_the_reason_of_a_cancellation_is_kept(self, console: Console) -> None:
        recorder = await console.shell(oddly("sleep 7002"))
        recorder.command.cancel(EndReason.DISK_QUOTA, grace_s=0)
        exit_ = await recorder.exit()
        assert (exit_.signal, exit_.reason) == (signal.SIGKILL, EndReason.DISK_QUOTA)

    async def test_a_second_cancellation_can_be_shorter(self, console: Console) -> None:
        recorder = await console.shell(oddly("trap '' TERM; echo ready; sleep 7003; sleep 7003"))
        await recorder.until(lambda r: "ready" in r.stdout)
        recorder.command.cancel(grace_s=600)
        recorder.command.cancel(grace_s=0)
        exit_ = await recorder.exit(timeout_s=5)
        assert (exit_.signal, exit_.survivors) == (signal.SIGKILL, 0)

    async def test_a_background_child_does_not_hold_the_result(self, console: Console) -> None:
        started = time.monotonic()
        recorder = await console.shell(oddly("sleep 7004 & echo started"))
        exit_ = await recorder.exit()
        assert time.monotonic() - started < 1.3
        assert (exit_.code, exit_.reason, exit_.survivors) == (0, EndReason.EXITED, 0)
        assert recorder.stdout == "started\n"
        assert not await names_of_others(console)

    async def test_a_daemon_is_ended_with_its_command(self, console: Console) -> None:
        await console.output(oddly("setsid nohup sleep 7005 >/dev/null 2>&1 </dev/null &"))
        assert not await names_of_others(console)

    async def test_what_children_write_shortly_after_is_not_lost(self, console: Console) -> None:
        over = "while kill -0 $$ 2>/dev/null; do sleep 0.01; done"
        recorder = await console.run(f"({over}; echo late) & echo soon")
        assert recorder.stdout == "soon\nlate\n"

    async def test_children_may_stay_if_asked_for(self, yard: Yard) -> None:
        async with yard.box() as box, open_console(yard.backend, box) as console:
            recorder = await console.shell(
                "(while :; do echo tick; echo x >> ticks; sleep 0.05; done) & echo started",
                leave_children=True,
            )
            exit_ = await recorder.exit()
            assert (exit_.code, exit_.survivors) == (0, 0)
            before = int(await console.output("wc -l < ticks"))
            await console.output(oddly("sleep 7006 & true"))
            await asyncio.sleep(0.3)
            assert int(await console.output("wc -l < ticks")) > before + 2

    async def test_two_commands_are_ended_apart(self, console: Console) -> None:
        stays = await console.shell(oddly("setsid sleep 7007 & sleep 7007"))
        ends = await console.shell(oddly("setsid sleep 7008 & sleep 7008"))
        names: list[str] = []
        while [names.count(f"sleep {each}") for each in (7007, 7008)] != [2, 2]:
            names = await names_of_others(console)
        ends.command.cancel(grace_s=0)
        assert (await ends.exit()).survivors == 0
        names = await names_of_others(console)
        assert names.count("sleep 7007") == 2
        assert not any("7008" in name for name in names)
        stays.command.cancel(grace_s=0)
        await stays.exit()

    async def test_a_fork_bomb_gives_way_to_the_next_command(self, yard: Yard) -> None:
        async with yard.box() as box, open_console(yard.backend, box) as console:
            if yard.capabilities.limits.pids is Enforcement.NONE:
                # Where nobody holds it, a real one would take the machine along.
                exit_ = await crowd(console)
                assert (exit_.reason, exit_.survivors) == (EndReason.CANCELLED, 0)
                return
            bomb = await console.start("/usr/bin/env", "python3", "-c", BOMB)
            if yard.capabilities.isolation is Isolation.USERSPACE_KERNEL:
                # What its kernel itself uses meanwhile is more than the box may have.
                assert isinstance(await console.link.wait_ended(), LinkClosed)
                await check_lost(yard, box)
                return
            await bomb.until(lambda r: "full" in r.stdout)
            started = time.monotonic()
            assert await console.output("echo works") == "works"
            assert time.monotonic() - started < 5
            exit_ = await bomb.exit()
            assert (exit_.reason, exit_.survivors) == (EndReason.PIDS_LIMIT, 0)

    async def test_a_memory_bomb_ends_alone(self, yard: Yard) -> None:
        async with yard.box() as box, open_console(yard.backend, box) as console:
            neighbour = await console.shell("echo ready; read line; echo lives", stdin=True)
            await neighbour.until(lambda r: "ready" in r.stdout)
            is_held = yard.capabilities.limits.memory is not Enforcement.NONE
            size = (1 << 31) if is_held else SMALL.memory_bytes + 64 * MIB
            script = f"x = b'x' * {size}; print(len(x))"
            bomb = await console.start("/usr/bin/env", "python3", "-c", script)
            if yard.capabilities.isolation is Isolation.USERSPACE_KERNEL:
                # To the machine all of the box is one program: the limit ends it as a whole.
                assert isinstance(await console.link.wait_ended(), LinkClosed)
                await check_lost(yard, box)
                return
            exit_ = await bomb.exit()
            assert exit_.reason is (EndReason.OOM if is_held else EndReason.EXITED)
            await neighbour.command.write_stdin(0, b"\n")
            await neighbour.exit()
            assert neighbour.stdout == "ready\nlives\n"
