"""What is particular to boxes on a machine behind SSH: trust, lost connections, and the end."""

import asyncio
import os
import signal
import uuid
from asyncio import to_thread
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from executor_service.backends.base import Backend
from executor_service.backends.ssh.backend import SshBackend
from executor_service.backends.ssh.machine import Machine
from executor_service.backends.supervisor_zipapp import build_zipapp
from executor_service.errors import BackendUnavailable
from executor_service.link.exec_handle import ExecHandle
from executor_service.supervisor.processes import read_process
from hermes.executor.v1 import exec_pb2, sandbox_pb2
from services.config.settings import Settings
from services.errors import Reason
from tests.support.boxes import Recorder, Yard, odd_seconds, open_console
from tests.support.executors import executor_settings, refused, serving
from tests.support.ssh_server import SshServer, ssh_server

pytestmark = pytest.mark.slow

WELCOME = 'ForceCommand echo Welcome; echo stranger >&2; eval "$SSH_ORIGINAL_COMMAND"'
OLD_PYTHON = """#!/bin/sh
echo 'hermes-install:{"python": [3, 6, 9], "host": "old", "system": "Linux"}'
"""
COUNT = "i=0; while [ $i -lt 60000 ]; do echo $i; i=$((i+1)); done; echo end >&2"


@pytest.fixture(scope="module")
def running() -> Iterator[SshServer]:
    """One server for all tests, which leave it as it was."""
    with ssh_server() as server:
        yield server


@pytest.fixture
def server(running: SshServer) -> Iterator[SshServer]:
    """The server; afterwards it is as it was."""
    yield running
    running.stop()
    running.know("host_key")
    running.start()


@pytest.fixture
async def yard(server: SshServer, tmp_path: Path) -> AsyncIterator[Yard]:
    """A backend of an owner of its own, no box of which is left."""

    def make(owner: str, _folder: Path) -> Backend:
        return SshBackend(owner, build_zipapp(), server.options)

    opened = await Yard.open(make, f"test-{uuid.uuid4().hex}", tmp_path)
    yield opened
    if not await to_thread(server.answers):
        await to_thread(server.start)
    await opened.close()


async def backend_of(server: SshServer, **options: str | int) -> SshBackend:
    """A backend that reaches the server with other options."""
    changed = server.options.model_copy(update=options)
    return SshBackend("test", await to_thread(build_zipapp), changed)


async def why_not(server: SshServer, **options: str | int) -> str:
    """Why a backend with these options cannot be used."""
    backend = await backend_of(server, **options)
    found = await backend.probe()
    await backend.close()
    assert not found.available
    assert "\n" not in found.reason
    return found.reason


def find(text: str) -> list[int]:
    """The processes of this machine whose arguments or environment have this text."""
    found: list[int] = []
    for place in Path("/proc").glob("[0-9]*"):
        for name in ("cmdline", "environ"):
            try:
                content = (place / name).read_bytes()
            except OSError:
                continue
            if text.encode() in content:
                found.append(int(place.name))
    return found


def parents(pids: list[int]) -> list[int]:
    """The parents of processes that live."""
    return [process.parent for pid in pids if (process := read_process(pid)) is not None]


async def until(condition: Callable[[], object]) -> None:
    """Wait for something that is seen only by looking."""
    async with asyncio.timeout(10):
        while not await to_thread(condition):  # noqa: ASYNC110
            await asyncio.sleep(0.02)


# ---- who is believed


async def test_no_machine_is_one_clear_line(server: SshServer) -> None:
    assert "set executor.ssh.host" in await why_not(server, host="")
    assert "no SSH server answers at 127.0.0.1:1: Connection refused" in (
        await why_not(server, port=1)
    )


async def test_an_unknown_host_key_is_refused(server: SshServer, tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    assert f"there is no {missing}" in await why_not(server, known_hosts=str(missing))
    await to_thread(missing.touch)
    reason = await why_not(server, known_hosts=str(missing))
    assert f"127.0.0.1:{server.port} is not in {missing}" in reason
    assert await to_thread(server.fingerprint) in reason
    assert f"ssh-keyscan -p {server.port} 127.0.0.1" in reason
    assert await to_thread(missing.read_text) == ""


async def test_a_changed_host_key_is_refused(server: SshServer) -> None:
    await to_thread(server.know, "other_host_key")
    reason = await why_not(server)
    assert "is not the one in" in reason
    assert await to_thread(server.fingerprint) in reason
    assert "somebody may be in between" in reason


async def test_a_fingerprint_is_enough(server: SshServer) -> None:
    pinned = await to_thread(server.fingerprint)
    backend = await backend_of(server, known_hosts="/nonexistent", fingerprint=pinned)
    found = await backend.probe()
    await backend.close()
    assert found.available, found.reason
    assert "Python 3." in found.reason
    other = await to_thread(server.fingerprint, "other_host_key")
    reason = await why_not(server, known_hosts="/nonexistent", fingerprint=other)
    assert f"executor.ssh.fingerprint is {other}" in reason


async def test_a_key_that_opens_nothing_is_one_clear_line(server: SshServer) -> None:
    key = str(server.folder / "other_user_key")
    reason = await why_not(server, key=key)
    assert f"does not let {server.account.pw_name} in with {key}" in reason
    assert "authorized_keys" in reason
    assert "/nonexistent" in await why_not(server, key="/nonexistent")


# ---- what there is on the machine


async def test_a_machine_without_a_usable_python_is_refused(server: SshServer) -> None:
    programs = server.folder / "programs"
    await to_thread(server.stop)
    await to_thread(server.start, f"SetEnv PATH={programs}")
    assert "has no python3: install Python 3.8" in await why_not(server)
    await to_thread(programs.mkdir)
    await to_thread((programs / "python3").write_text, OLD_PYTHON)
    await to_thread((programs / "python3").chmod, 0o755)
    assert "is 3.6.9: install Python 3.8 or newer" in await why_not(server)


async def test_a_folder_that_others_may_write_to_is_refused(server: SshServer) -> None:
    assert "others may write to /tmp" in await why_not(server, folder="/tmp")


async def test_a_shell_may_say_something_first(server: SshServer, yard: Yard) -> None:
    await to_thread(server.stop)
    await to_thread(server.start, WELCOME)
    async with yard.box() as box, open_console(yard.backend, box) as console:
        assert await console.output("echo hello") == "hello"


async def test_more_boxes_than_one_connection_may_have_sessions(
    server: SshServer, yard: Yard
) -> None:
    await to_thread(server.stop)
    await to_thread(server.start, "MaxSessions 2")
    async with AsyncExitStack() as stack:
        boxes = [await stack.enter_async_context(yard.box()) for _ in range(5)]
        consoles = [
            await stack.enter_async_context(open_console(yard.backend, box)) for box in boxes
        ]
        said = await asyncio.gather(*(console.output("echo $HERMES_BOX") for console in consoles))
        assert said == [box.key for box in boxes]
        assert await to_thread(server.connections) >= 3


# ---- connections that are lost


@pytest.mark.parametrize("stops", [False, True], ids=["cut", "server restarted"])
async def test_nothing_is_lost_with_a_connection(
    server: SshServer, yard: Yard, stops: bool
) -> None:
    async with yard.box() as box:
        adopted: list[Recorder] = []

        def adopt(command: ExecHandle) -> Recorder:
            adopted.append(Recorder(command))
            return adopted[-1]

        async with open_console(yard.backend, box) as console:
            recorder = await console.shell(f"{COUNT}; sleep 0.2", exec_id="exc_count")
            await recorder.until(lambda r: len(r.received[1]) > 20_000)
            await to_thread(server.stop if stops else server.cut)
            await console.link.wait_ended()
        received = recorder.received
        if stops:
            with pytest.raises(BackendUnavailable, match="no SSH server answers"):
                await yard.backend.connect(box)
            await to_thread(server.start)
        acked = {"exc_count": (len(received[1]), len(received[2]))}
        async with open_console(yard.backend, box, adopt=adopt, acked=acked):
            assert (await adopted[0].exit()).code == 0
        stdout, stderr = (received[fd] + adopted[0].received[fd] for fd in (1, 2))
        assert stdout == "".join(f"{n}\n" for n in range(60_000)).encode()
        assert stderr == b"end\n"


async def test_a_box_that_reads_nothing_holds_up_only_its_writer(yard: Yard) -> None:
    async with yard.box() as slow, yard.box() as other:
        stream = await yard.backend.connect(slow)
        os.kill(int(slow.native_id), signal.SIGSTOP)
        try:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(2):
                    await stream.write(bytes(64 * 1024 * 1024))
            async with open_console(yard.backend, other) as console:
                assert await console.output("echo works") == "works"
        finally:
            os.kill(int(slow.native_id), signal.SIGCONT)
            await stream.close()


# ---- whose boxes, and their end


async def test_a_box_ends_with_everything_that_it_has_started(yard: Yard) -> None:
    seconds = odd_seconds()
    async with yard.box() as box:
        async with open_console(yard.backend, box) as console:
            detached = f"env -i /usr/bin/setsid sh -c 'sleep {seconds} & sleep {seconds} &' &"
            recorder = await console.shell(
                f"setsid sleep {seconds} & {detached} echo ready", leave_children=True
            )
            await recorder.exit()
            await console.output("touch $TMPDIR/file; mkdir -m 0 $TMPDIR/closed")
        assert len(await to_thread(find, f"sleep\0{seconds}")) == 3
        place = Path(box.labels["socket"]).parent
        assert await to_thread(place.is_dir)
        await yard.backend.destroy(box)
        assert not await to_thread(find, f"sleep\0{seconds}")
        assert not await to_thread(place.exists)
        assert await to_thread(Path(box.labels["folder"]).is_dir)
        supervisor = read_process(int(box.native_id))
        assert supervisor is None or supervisor.state == "Z"


async def test_what_a_killed_supervisor_has_left_is_ended(yard: Yard) -> None:
    seconds = odd_seconds()
    async with yard.box() as box:
        async with open_console(yard.backend, box) as console:
            await console.shell(f"setsid sleep {seconds} & sleep {seconds}")
            while len(await to_thread(find, f"sleep\0{seconds}")) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            os.kill(int(box.native_id), signal.SIGKILL)
            await console.link.wait_ended()
        assert len(await to_thread(find, f"sleep\0{seconds}")) == 2
        assert await yard.backend.list_boxes() == []
        assert not await to_thread(find, f"sleep\0{seconds}")
        assert not await to_thread(Path(box.labels["socket"]).parent.exists)


async def test_a_supervisor_that_ends_by_itself_leaves_nothing(yard: Yard) -> None:
    seconds = odd_seconds()
    async with yard.box() as box:
        async with open_console(yard.backend, box) as console:
            # Nothing says any more which command has started it.
            detached = f"sleep 0.3; /usr/bin/setsid sleep {seconds} & exec sleep 0.2"
            script = f'env -i /usr/bin/setsid sh -c "{detached}" & echo ready'
            await (await console.shell(script, leave_children=True)).exit()
            supervisor = int(box.native_id)
            await until(lambda: parents(find(f"sleep\0{seconds}")) == [supervisor])
            os.kill(supervisor, signal.SIGTERM)
            await console.link.wait_ended()
        await until(lambda: not find(f"sleep\0{seconds}"))
        await until(lambda: not find(box.key))
        assert not await to_thread(find, f"sleep\0{seconds}")


# ---- a whole executor


def settings_of(server: SshServer, home: Path) -> Settings:
    """The settings of an executor that is to use the server."""
    environ = server.environ
    return executor_settings(home, "ssh", **environ)


async def test_an_executor_uses_it_when_it_is_named(server: SshServer, tmp_path: Path) -> None:
    settings = settings_of(server, tmp_path)
    async with serving(settings) as executor, executor.client() as client:
        namespace = sandbox_pb2.ISOLATION_LEVEL_NAMESPACE
        assert await refused(client.acquire(min_isolation=namespace)) is Reason.BACKEND_UNAVAILABLE
        answer = await client.acquire()
        assert (answer.sandbox.backend, answer.sandbox.isolation) == (
            "ssh",
            sandbox_pb2.ISOLATION_LEVEL_NONE,
        )
        said = await client.output(answer.lease, "pwd; id -u")
        assert said.split()[1] == str(server.account.pw_uid)
        assert said.startswith(f"{server.options.folder}/workspaces/")
        running = asyncio.create_task(client.output(answer.lease, "sleep 2; echo kept"))
        await until(lambda: find("sleep 2; echo kept"))
        await to_thread(server.cut)
        assert await running == "kept"
        await client.release(answer.lease)


async def test_a_stream_that_is_closed_amid_its_output_breaks_no_other(server: SshServer) -> None:
    machine = Machine(server.options)
    kept = await machine.stream("cat")
    for _ in range(10):
        stream = await machine.stream("while :; do echo x; done")
        assert await stream.read(1) == b"x"
        await stream.close()
    await kept.write(b"kept")
    assert await kept.read(4) == b"kept"
    assert await to_thread(server.connections) == 1
    await kept.close()
    await machine.close()


async def test_a_machine_that_goes_takes_its_sandboxes_along(
    server: SshServer, tmp_path: Path
) -> None:
    seconds = odd_seconds()
    settings = settings_of(server, tmp_path)
    async with serving(settings) as executor, executor.client() as client:
        lease = (await client.acquire()).lease
        running = asyncio.create_task(client.run(lease, "sleep", seconds))
        await until(lambda: find(f"sleep\0{seconds}"))
        await to_thread(server.stop)
        async with asyncio.timeout(10):
            exit_ = (await running).exit
        assert exit_ is not None
        assert exit_.reason == exec_pb2.EXIT_REASON_SANDBOX_LOST
        await to_thread(server.start)
        again = (await client.acquire()).lease
        assert again.sandbox_id != lease.sandbox_id
        assert await client.output(again, "echo works") == "works"
        await until(lambda: not find(f"sleep\0{seconds}"))
        await client.release(again)
