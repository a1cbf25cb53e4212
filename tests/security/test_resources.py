"""Attacks that use up what a machine has: processes, memory, processors, disk."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from google.protobuf.duration_pb2 import Duration

from hermes.executor.v1 import exec_pb2, sandbox_pb2
from tests.security.dens import HELD, MIB, Den, Lease, den, fare
from tests.security.scale import scale, scale_name
from tests.support.boxes import BOMB
from tests.support.requirements import require

pytestmark = pytest.mark.asyncio(loop_scope="module")

SPIN_S = 2.0
SPIN = f"""
import os, sys, time
while time.time() < float(sys.argv[2]): pass
children = []
for _ in range(int(sys.argv[1])):
    child = os.fork()
    if not child:
        end = time.time() + {SPIN_S}
        while time.time() < end: pass
        os._exit(0)
    children.append(child)
for child in children: os.waitpid(child, 0)
used = os.times()
print(used.children_user + used.children_system)
"""
FILL_BYTES = 40 * MIB
FILL = """
import os, sys, time
written = 0
try:
    with open(sys.argv[1] + "/fill", "wb", buffering=0) as file:
        while written < int(sys.argv[2]):
            written += file.write(bytes(65536))
    print("all", written, flush=True)
    time.sleep(float(sys.argv[3]))
except OSError as error:
    print(error.errno, written)
"""
EMPTY = """
import os, sys, time
made = 0
try:
    os.mkdir(sys.argv[1] + "/many")
    while made < int(sys.argv[2]):
        os.close(os.open(f"{sys.argv[1]}/many/{made}", os.O_CREAT | os.O_WRONLY))
        made += 1
    print("all", made, flush=True)
    time.sleep(float(sys.argv[3]))
except OSError as error:
    print(error.errno, made)
"""
"""What says how far it came, and why not further."""
NO_SPACE = "28"
LOOKED_AT_WITHIN_S = 60
"""How long whoever has filled a folder stays: where it is only looked at, that takes a while."""
RUN_S = 90


@pytest.fixture(scope="module", params=["bubblewrap", "docker"])
def backend(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def held(backend: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Den]:
    """Where attacks run into limits."""
    async with den(tmp_path_factory.mktemp("held"), backend, HELD) as opened:
        found = await opened.client.sandboxes.GetCapabilities(sandbox_pb2.GetCapabilitiesRequest())
        held_by_kernel = found.backends[0].memory_limit == sandbox_pb2.LIMIT_ENFORCEMENT_KERNEL
        require("root", held_by_kernel, f"{backend} holds no limits for an ordinary user here")
        yield opened


@pytest.mark.alone
async def test_a_fork_bomb_is_contained(held: Den) -> None:
    bombed, neighbour = await held.lease(), await held.lease()
    bomb = await held.client.start(bombed, "python3", "-c", BOMB)
    await held.until_it_says(bombed, bomb.exec_id, b"full")

    async def go_on(is_loud: bool) -> None:
        number = signal.SIGCONT if is_loud else signal.SIGSTOP
        await held.client.signal(bombed, bomb.exec_id, number)

    found = await fare(lambda: held.latency_s(neighbour), go_on, scale().rounds)
    assert found.is_fair, found
    started = time.monotonic()
    assert await held.client.output(bombed, "echo works") == "works"
    assert time.monotonic() - started < 5
    ended = await held.client.wait(bombed, bomb.exec_id)
    assert ended.exit.reason == exec_pb2.EXIT_REASON_PIDS_LIMIT
    for lease in (bombed, neighbour):
        await held.client.release(lease)


async def spin(at: Den, hog: Lease, neighbour: Lease) -> float:
    """How much time of processors two processes get for each second that sixteen others get."""
    start_at = str(time.time() + 1)
    used = await asyncio.gather(
        *(
            at.client.run(lease, "python3", "-c", SPIN, count, start_at)
            for lease, count in ((hog, "16"), (neighbour, "2"))
        )
    )
    assert [seen.code for seen in used] == [0, 0], used
    hogged_s, left_s = (float(seen.stdout) for seen in used)
    return left_s / hogged_s


@pytest.mark.alone
async def test_a_neighbour_of_a_hog_has_its_share(held: Den) -> None:
    capabilities = await held.client.sandboxes.GetCapabilities(sandbox_pb2.GetCapabilitiesRequest())
    is_held = capabilities.backends[0].cpu_limit == sandbox_pb2.LIMIT_ENFORCEMENT_KERNEL
    require("cpu", is_held, "nothing limits processors here")
    hog, neighbour = await held.lease(), await held.lease()
    share = await spin(held, hog, neighbour)
    assert share >= 0.8
    for lease in (hog, neighbour):
        await held.client.release(lease)


async def places(at: Den, lease: Lease) -> list[str]:
    """Every folder that commands can write files to; the kernel itself limits message queues."""
    script = (
        "for d in $(find / -xdev -type d -writable 2>/dev/null) $(cut -d' ' -f2 /proc/mounts); do "
        "case $d in /proc*|/dev/mqueue) continue;; esac; : >$d/x && rm $d/x && echo $d; done"
    )
    found = (await at.client.run(lease, script=f"({script}) 2>/dev/null")).stdout.decode()
    return sorted(set(found.split()))


async def fill(
    at: Den, lease: Lease, script: str, path: str, most: int, stay_s: int = LOOKED_AT_WITHIN_S
) -> tuple[str, int]:
    """Why somebody who fills a folder had to stop, and how far it came."""
    limit = Duration(seconds=RUN_S)
    arguments = ("python3", "-c", script, path, str(most), str(stay_s))
    seen = await at.client.run(lease, *arguments, run_timeout=limit)
    assert seen.exit is not None
    why, _, count = seen.stdout.decode().strip().partition(" ")
    if seen.exit.reason != exec_pb2.EXIT_REASON_EXITED:
        why = exec_pb2.ExitReason.Name(seen.exit.reason).removeprefix("EXIT_REASON_")
    await at.client.run(lease, script=f"rm -rf {path}/fill {path}/many")
    return why, int(count or 0)


@pytest.mark.timeout(120)
async def test_every_place_is_full_at_its_size(held: Den) -> None:
    lease = await held.lease()
    found = await places(held, lease)
    assert {"/tmp", "/workspace", "/dev/shm", "/run"} <= set(found), found
    for path in found:
        most = 4 * FILL_BYTES if path == "/dev/shm" else FILL_BYTES
        why, _ = await fill(held, lease, FILL, path, most)
        assert why == NO_SPACE or (path == "/workspace" and why == "DISK_QUOTA"), (path, why)
    assert await held.client.output(lease, "echo works") == "works"
    await held.client.release(lease)


@pytest.mark.timeout(120)
async def test_empty_files_run_out_as_well(held: Den) -> None:
    lease = await held.lease()
    few = ["/tmp", "/workspace"]
    for path in await places(held, lease) if scale_name() == "full" else few:
        # An empty file counts as 256 bytes of the workspace.
        most = 20_000 if path == "/workspace" else scale().files
        why, made = await fill(held, lease, EMPTY, path, most)
        assert why in {NO_SPACE, "DISK_QUOTA", "OOM"}, (path, why, made)
    assert await held.client.output(lease, "echo works") == "works"
    await held.client.release(lease)
