"""What every backend says of itself, held against what is seen; the limits on memory, processes
and /tmp are in the other suites, as what is to be said of them is how a command ends.
"""

import asyncio
import os
import time

import pytest
from msgspec.structs import replace

from executor_service.backends.base import MIB, Enforcement
from executor_service.errors import BoxOutOfSpace, LinkClosed
from executor_service.records.sandboxes import Isolation
from tests.support import capability_table
from tests.support.boxes import SMALL, Yard, open_console
from tests.support.requirements import required

CPU_SHARE = 0.2
UNIT = 10_000
BUSY = f"""
import time
began, used, units = time.monotonic(), time.process_time(), 0
while time.monotonic() - began < 3:
    sum(range({UNIT}))
    units += 1
took = time.monotonic() - began
print((time.process_time() - used) / took, units / took)
"""

QUOTA_BYTES = 16 * MIB
FILL = "head -c 67108864 /dev/zero >big 2>/dev/null; code=$?; wc -c <big; exit $code"


def unit_s() -> float:
    """The processor time of a unit of work where nothing disturbs it."""
    took: list[float] = []
    for _ in range(300):
        began = time.thread_time()
        sum(range(UNIT))
        took.append(time.thread_time() - began)
    return min(took)


class CapabilitySuite:
    """Run against each backend by tests/contract/test_backends.py."""

    async def test_processor_time_is_held_as_it_is_said(self, yard: Yard) -> None:
        if yard.capabilities.limits.cpu is Enforcement.NONE:
            return  # what a busy machine leaves for it may be as little
        limits = replace(SMALL, cpu_count=CPU_SHARE)
        async with yard.box(limits) as box, open_console(yard.backend, box) as console:
            got, units_per_s = map(float, (await console.python(BUSY)).split())
        is_exact = yard.capabilities.isolation is not Isolation.USERSPACE_KERNEL
        if not is_exact:
            # A kernel in user space counts whole ticks, and so more than was got: what was done
            # tells, by what it takes here.
            got = units_per_s * await asyncio.to_thread(unit_s)
        assert got < CPU_SHARE * (1.4 if is_exact else 2.2), got

    async def test_the_workspace_is_held_as_it_is_said(self, yard: Yard) -> None:
        limits = replace(SMALL, workspace_bytes=QUOTA_BYTES)
        async with yard.box(limits) as box, open_console(yard.backend, box) as console:
            filling = await console.shell(FILL)
            if yard.capabilities.limits.workspace is Enforcement.WATCHED:
                # Whoever watches acts seconds later, on the box as a whole.
                assert isinstance(await console.link.wait_ended(), LinkClosed)
                with pytest.raises(BoxOutOfSpace, match=r"Evicted: .* exceeds the limit"):
                    await yard.backend.connect(box)
                return
            ended = await filling.exit()
            written = int(filling.stdout)
        if yard.capabilities.limits.workspace is Enforcement.ENFORCED:
            assert ended.code != 0
            assert written <= QUOTA_BYTES
        else:
            assert (ended.code, written) == (0, 64 * MIB)

    async def test_a_box_is_apart_from_the_machine_as_it_is_said(self, yard: Yard) -> None:
        async with yard.box() as box, open_console(yard.backend, box) as console:
            inside = await console.output("readlink /proc/self/ns/mnt || echo none")
        outside = await asyncio.to_thread(os.readlink, "/proc/self/ns/mnt")
        assert (inside == outside) == (yard.capabilities.isolation is Isolation.NONE)

    async def test_the_network_is_as_it_is_said(self, yard: Yard) -> None:
        async with yard.box() as box, open_console(yard.backend, box) as console:
            inside = await console.output("sed -n 's/:.*//p' /proc/net/dev")
        assert (set(inside.split()) == {"lo"}) == bool(yard.capabilities.network_policies)

    async def test_the_documentation_says_what_was_found(self, name: str, yard: Yard) -> None:
        found = capability_table.row(name, yard)
        documented = await asyncio.to_thread(capability_table.documented)
        said = documented[capability_table.label(name)]
        if name in required():
            assert found == said, f"docs/operators/backends/README.md: {' | '.join(found)}"
        else:
            assert capability_table.is_no_better(found, said)
