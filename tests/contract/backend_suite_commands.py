"""What every backend promises of commands that run: their input, output and surroundings."""

import asyncio
import hashlib
import os
import signal
import uuid

import pytest

from executor_service.backends.base import MIB
from executor_service.errors import StartRefused
from executor_service.link.exec_handle import ExecHandle
from executor_service.link.messages import StartCommand, TerminalSize
from executor_service.records.sandboxes import EndReason, Isolation
from tests.security.places import EVERYTHING_HELD
from tests.security.scale import scale
from tests.support.boxes import Console, Recorder, Yard, refuse
from tests.support.memory import Memory

FLOOD = """
import sys
block = bytes(range(256)) * 4096
for number in range(int(sys.argv[1])):
    sys.stdout.buffer.write(b"%08d" % number + block[8:])
"""
"""Blocks of a MiB, no two of which are alike."""
FLOOD_GROWS_MIB = 64
AT_A_TERMINAL = """
import os, signal, sys
def show(*_):
    columns, rows = os.get_terminal_size(0)
    print(rows, columns)
print(*map(os.isatty, (0, 1, 2)))
show()
signal.signal(signal.SIGWINCH, show)
print("ready")
for line in sys.stdin:
    print("got", line.strip())
print("end", file=sys.stderr)
"""
SIGNALS = """
from signal import SIG_BLOCK, SIG_IGN, getsignal, pthread_sigmask, valid_signals
ignored = [number for number in valid_signals() if getsignal(number) is SIG_IGN]
print(list(pthread_sigmask(SIG_BLOCK, ())), sorted(number.name for number in ignored))
"""


def digest_of_flood(mib: int) -> bytes:
    """The SHA-256 of so much of it."""
    block, digest = bytes(range(256)) * 4096, hashlib.sha256()
    for number in range(mib):
        digest.update(b"%08d" % number + block[8:])
    return digest.digest()


class CommandSuite:
    """Run against each backend by tests/contract/test_backends.py."""

    @pytest.mark.parametrize("code", [0, 255])
    async def test_exit_codes(self, console: Console, code: int) -> None:
        exit_ = await (await console.shell(f"exit {code}")).exit()
        assert (exit_.code, exit_.signal, exit_.reason) == (code, None, EndReason.EXITED)

    async def test_a_command_that_kills_itself(self, console: Console) -> None:
        exit_ = await (await console.shell("kill -SEGV $$")).exit()
        assert (exit_.code, exit_.signal) == (None, signal.SIGSEGV)
        assert exit_.reason is EndReason.SIGNALED

    async def test_output_streams_are_apart(self, console: Console) -> None:
        recorder = await console.run("echo out; echo err >&2; echo more")
        exit_ = await recorder.exit()
        assert (recorder.stdout, recorder.stderr) == ("out\nmore\n", "err\n")
        assert (exit_.totals[0], exit_.totals[1]) == (9, 4)

    async def test_every_byte_value_comes_through(self, console: Console) -> None:
        recorder = await console.start(
            *("/usr/bin/env", "python3", "-c"),
            "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read() + bytes(range(256)) * 99)",
            stdin=True,
        )
        await recorder.command.write_stdin(0, bytes(range(256)), ends=True)
        await recorder.exit()
        assert recorder.received[1] == bytes(range(256)) * 100

    async def test_names_that_are_not_ascii(self, console: Console) -> None:
        recorder = await console.start("/bin/sh", "-c", 'printf %s "$1"', "sh", "naïve — 木 🜚")
        await recorder.exit()
        assert recorder.stdout == "naïve — 木 🜚"
        raw = await console.start("/bin/sh", "-c", 'printf %s "$1"', "sh", "\udcff\udc80")
        await raw.exit()
        assert raw.received[1] == b"\xff\x80"

    async def test_the_environment_is_what_was_asked_for(self, console: Console) -> None:
        env = {"GREETING": "good\nday = naïve", "EMPTY": "", "PATH": "/usr/bin:/bin"}
        printed = await console.output('echo "$GREETING|$EMPTY|$PATH|$HOME"', env=env)
        workspace = await console.output("pwd")
        assert printed == f"good\nday = naïve||/usr/bin:/bin|{workspace}"
        # Nothing says where the machines are that make boxes.
        assert await console.output("env | grep ^KUBERNETES_; :") == ""

    async def test_the_working_folder(self, console: Console) -> None:
        workspace = await console.output("pwd")
        assert await console.output("pwd", cwd="/workspace") == workspace
        assert await console.output("pwd", cwd="/usr/lib") == "/usr/lib"
        await console.output("mkdir -p some/folder")
        for cwd in ("some/folder", "/workspace/some/folder"):
            assert await console.output("pwd", cwd=cwd) == f"{workspace}/some/folder"

    @pytest.mark.parametrize(
        ("argv", "options", "code"),
        [
            (("no-such-program",), {}, "NOT_FOUND"),
            (("/no/such/program",), {}, "NOT_FOUND"),
            (("/etc/passwd",), {}, "PERMISSION_DENIED"),
            (("true",), {"cwd": "/no/such/folder"}, "NOT_FOUND"),
            (("true",), {"cwd": "/proc/self/fd/0"}, "FAILED"),
            (("true",), {"cwd": "/proc/self/root"}, "FAILED"),
            (("true", "x" * 200_000), {}, "TOO_LONG"),
        ],
    )
    async def test_what_cannot_be_started(
        self, console: Console, argv: tuple[str, ...], options: dict[str, str], code: str
    ) -> None:
        with pytest.raises(StartRefused) as refused:
            await console.start(*argv, **options)
        assert refused.value.code == code
        assert str(refused.value)

    async def test_without_input_there_is_none(self, console: Console) -> None:
        assert await console.output("cat; echo end") == "end"

    async def test_input_in_pieces(self, console: Console) -> None:
        recorder = await console.shell("read a; echo got $a; cat", stdin=True)
        await recorder.command.write_stdin(0, b"one\n")
        await recorder.until(lambda r: r.stdout == "got one\n")
        await recorder.command.write_stdin(4, b"two")
        await recorder.command.write_stdin(4, b"two three", ends=True)
        await recorder.exit()
        assert recorder.stdout == "got one\ntwo three"

    async def test_much_input_at_the_reader_s_pace(self, console: Console) -> None:
        recorder = await console.shell("sleep 0.3; wc -c", stdin=True)
        data = b"x" * 3_000_000
        await recorder.command.write_stdin(0, data, ends=True)
        await recorder.exit()
        assert recorder.stdout.strip() == "3000000"
        assert recorder.stdin_taken_bytes == 3_000_000

    async def test_input_that_nobody_reads_does_not_block(self, console: Console) -> None:
        recorder = await console.shell("exec 0<&-; sleep 0.2; echo done", stdin=True)
        async with asyncio.timeout(20):
            await recorder.command.write_stdin(0, b"x" * 3_000_000, ends=True)
        await recorder.exit()
        assert recorder.stdout == "done\n"

    async def test_a_terminal(self, console: Console) -> None:
        recorder = await console.start(
            *("/usr/bin/env", "python3", "-uc", AT_A_TERMINAL),
            terminal=TerminalSize(30, 100),
            stdin=True,
        )
        await recorder.until(lambda r: "ready" in r.stdout)
        assert recorder.stdout.startswith("True True True\r\n30 100\r\n")
        recorder.command.resize(TerminalSize(40, 120))
        await recorder.until(lambda r: "40 120" in r.stdout)
        await recorder.command.write_stdin(0, b"hello\n")
        await recorder.until(lambda r: "got hello" in r.stdout)
        await recorder.command.write_stdin(6, b"", ends=True)
        exit_ = await recorder.exit()
        assert exit_.code == 0
        assert "end\r\n" in recorder.stdout
        assert exit_.totals[1] == 0

    async def test_a_terminal_has_a_type_that_its_caller_may_choose(self, console: Console) -> None:
        for env, type_ in (({}, "xterm"), ({"TERM": "vt100"}, "vt100")):
            said = await console.output("echo $TERM", terminal=TerminalSize(), env=env)
            assert said == f"{type_}\r"

    async def test_control_c_at_a_terminal(self, console: Console) -> None:
        # A single long sleep would miss a signal that comes just before it.
        script = "import time; print('ready', flush=True)\nwhile True: time.sleep(0.05)"
        recorder = await console.start(
            *("/usr/bin/env", "python3", "-c", script), terminal=TerminalSize(), stdin=True
        )
        await recorder.until(lambda r: "ready" in r.stdout)
        await recorder.command.write_stdin(0, b"\x03")
        exit_ = await recorder.exit()
        assert exit_.signal == signal.SIGINT

    async def test_signals(self, console: Console) -> None:
        recorder = await console.shell(
            "trap 'echo usr1' USR1; echo ready; while :; do sleep 0.02; done"
        )
        await recorder.until(lambda r: "ready" in r.stdout)
        recorder.command.signal(signal.SIGUSR1)
        await recorder.until(lambda r: "usr1" in r.stdout)
        recorder.command.signal(signal.SIGKILL)
        exit_ = await recorder.exit()
        assert (exit_.signal, exit_.reason) == (signal.SIGKILL, EndReason.SIGNALED)

    async def test_children_start_with_ordinary_signals(self, console: Console) -> None:
        status = await console.output("grep -E 'Sig(Blk|Ign)' /proc/self/status || true")
        if not status:
            # gVisor does not show them. Python ignores two by itself.
            assert await console.python(SIGNALS) == "[] ['SIGPIPE', 'SIGXFSZ']"
            return
        values = {line.split(":")[0]: int(line.split()[1], 16) for line in status.splitlines()}
        # glibc starts every program with the two signals of its own ignored.
        assert (values["SigBlk"], values["SigIgn"] & ~0x180000000) == (0, 0), status

    async def test_children_are_killed_for_memory_before_the_supervisor(
        self, console: Console
    ) -> None:
        # While it starts a command, the supervisor has the command's score.
        script = "cat /proc/self/oom_score_adj; sleep 0.3; cat /proc/$PPID/oom_score_adj"
        scores = await console.output(script)
        assert scores.split() == ["1000", "0"]

    async def test_children_inherit_no_descriptor(self, console: Console) -> None:
        assert await console.output("ls /proc/self/fd") == "0\n1\n2\n3"
        sessions = await console.output("cut -d' ' -f1,5,6 /proc/$$/stat; echo $$")
        line, pid = sessions.splitlines()
        assert line.split() == [pid, pid, pid]

    async def test_the_same_request_twice_is_one_command(self, console: Console) -> None:
        name = f"once-{uuid.uuid4().hex}"
        request = StartCommand("exc_" + name, ("/bin/sh", "-c", f"echo run >> {name}"))
        recorders: list[Recorder] = []

        def adopt(command: ExecHandle) -> Recorder:
            recorders.append(Recorder(command))
            return recorders[-1]

        first = await console.link.start(request, adopt)
        second = await console.link.start(request, adopt)
        await recorders[0].exit()
        third = await console.link.start(request, adopt)
        assert first is second is third
        assert len(recorders) == 1
        assert await console.output(f"cat {name}") == "run"
        with pytest.raises(StartRefused) as refused:
            await console.link.start(StartCommand("exc_" + name, ("true",)), refuse)
        assert refused.value.code == "CONFLICT"
        first.forget()

    async def test_many_commands_side_by_side(self, console: Console) -> None:
        results = await asyncio.gather(
            *(console.output(f"sleep 0.{n % 4}; echo {n}") for n in range(24))
        )
        assert results == [str(n) for n in range(24)]

    @pytest.mark.timeout(900)
    async def test_a_flood_is_read_whole(self, yard: Yard, console: Console) -> None:
        found, size = yard.capabilities, scale()
        is_quick = found.name in EVERYTHING_HELD and found.isolation is Isolation.NAMESPACE
        mib = size.output_mib if is_quick else size.output_elsewhere_mib
        memory = await asyncio.to_thread(Memory, os.getpid())
        recorder = await console.start(
            "/usr/bin/env", "python3", "-c", FLOOD, str(mib), keeps=False
        )
        exit_ = await recorder.exit(timeout_s=800)
        assert (exit_.code, exit_.totals[0]) == (0, mib * MIB)
        assert recorder.received_bytes == mib * MIB
        assert recorder.digest.digest() == await asyncio.to_thread(digest_of_flood, mib)
        assert await asyncio.to_thread(memory.grown_mib) < FLOOD_GROWS_MIB

    async def test_a_slow_reader_stops_the_writer_and_loses_nothing(self, console: Console) -> None:
        script = "for i in 1 2 3 4 5 6 7 8; do head -c 1000000 /dev/zero | tr '\\0' $i; done"
        recorder = await console.shell(script, acknowledges=False)
        await recorder.until(lambda r: r.received_bytes >= 900_000)
        assert await console.output("echo others are not held up") == "others are not held up"
        await asyncio.sleep(0.2)
        assert recorder.received_bytes <= 1_300_000
        assert recorder.command.exit is None
        recorder.acknowledges = True
        recorder.command.ack(1, len(recorder.received[1]))
        await recorder.exit()
        assert recorder.received[1] == b"".join(b"%d" % i * 1_000_000 for i in range(1, 9))
