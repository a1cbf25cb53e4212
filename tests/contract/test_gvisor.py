"""What is particular to boxes of an engine whose runtime is gVisor."""

import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from executor_service.backends.base import GIB
from executor_service.backends.docker.backend import DockerBackend
from executor_service.config import DockerConfig
from executor_service.records.sandboxes import Isolation
from hermes.executor.v1 import exec_pb2, sandbox_pb2
from tests.support.boxes import SMALL, Yard, open_console, open_yard
from tests.support.executors import executor_settings, serving

pytestmark = pytest.mark.slow

FORK_UNTIL_REFUSED = """
import os, signal, time
children = []
try:
    while len(children) < 500:
        pid = os.fork()
        if not pid: time.sleep(60)
        children.append(pid)
except OSError as error:
    print(len(children), error.strerror)
for pid in children: os.kill(pid, signal.SIGKILL)
"""


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    async with open_yard("gvisor", tmp_path) as opened:
        yield opened


async def test_it_is_told_from_a_runtime_that_shares_the_kernel(yard: Yard) -> None:
    assert yard.capabilities.isolation is Isolation.USERSPACE_KERNEL
    assert "runtime runsc, which is gVisor" in yard.capabilities.reason
    for runtime in ("", "runc"):
        other = DockerBackend("probe", yard.folder, b"", DockerConfig(runtime=runtime))
        found = await other.probe()
        await other.close()
        assert (found.available, found.isolation) == (True, Isolation.NAMESPACE), found.reason


async def test_the_kernel_is_gvisor_s(yard: Yard) -> None:
    async with yard.box() as box, open_console(yard.backend, box) as console:
        assert "Starting gVisor" in await console.output("dmesg")
        assert await console.output(
            "id -u; grep Cap /proc/self/status | grep -vc ' *0000000000000000'; true"
        )
        refused = "import ctypes; print(ctypes.CDLL(None).ptrace(16, 1, 0, 0))"
        assert await console.python(refused) == "-1"


async def test_a_process_too_many_is_refused_and_the_others_go_on(yard: Yard) -> None:
    # In such a box each process costs some MiB more.
    limits = replace(SMALL, memory_bytes=GIB)
    async with yard.box(limits) as box, open_console(yard.backend, box) as console:
        number, why = (await console.python(FORK_UNTIL_REFUSED)).split(" ", 1)
        assert int(number) < 2 * SMALL.pids, "it counts a little late"
        assert why == "Resource temporarily unavailable"
        assert await console.output("echo works") == "works"


async def test_memory_that_was_exceeded_is_the_reason_and_the_session_goes_on(
    yard: Yard, tmp_path: Path
) -> None:
    assert yard.capabilities.available
    settings = executor_settings(
        tmp_path, "docker", HERMES_DOCKER_RUNTIME="runsc", HERMES_KEEP_SANDBOXES="false"
    )
    async with serving(settings) as executor, executor.client() as client:
        session = uuid.uuid4().hex
        answer = await client.acquire(
            session, min_isolation=sandbox_pb2.ISOLATION_LEVEL_USERSPACE_KERNEL
        )
        assert answer.sandbox.isolation == sandbox_pb2.ISOLATION_LEVEL_USERSPACE_KERNEL
        await client.output(answer.lease, "echo kept > file")
        seen = await client.run(answer.lease, "python3", "-c", "x = b'x' * (3 << 30)")
        assert seen.exit is not None
        assert seen.exit.reason == exec_pb2.EXIT_REASON_OOM
        again = await client.acquire(session)
        assert await client.output(again.lease, "cat file") == "kept"
        await client.release(again.lease)
