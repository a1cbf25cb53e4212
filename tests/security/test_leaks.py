"""Sandboxes that come and go leave nothing behind: counted, and only what this executor made."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.security.places import EVERYTHING_HELD
from tests.security.scale import scale
from tests.support.docker_engine import docker_client
from tests.support.executor_client import Client
from tests.support.executors import Process, end_boxes, executor_settings

pytestmark = pytest.mark.slow

AT_A_TIME = 4
FIRST_CYCLES = 8
"""After which an executor has opened what it keeps open."""

SETTLED_WITHIN_S = 5
"""What ends at this moment is no leak; what is one, stays."""


@dataclass(frozen=True, slots=True)
class Leaks:
    """What there is more than before."""

    containers: int
    mounts: int
    cgroups: int
    namespaces: int
    descriptors: int
    processes: int


NONE = Leaks(0, 0, 0, 0, 0, 0)


@dataclass(slots=True)
class Marks:
    """By what the things of an executor's boxes are known on the machine."""

    names: set[str] = field(default_factory=set[str])
    """Ids of sandboxes and containers, which are in the names of mounts, groups and processes."""
    files: set[str] = field(default_factory=set[str])
    """Names of the files that hold a namespace; the engine keeps the empty file for a minute."""

    def of_container(self, sandbox_id: str) -> None:
        """Look at a sandbox that is a container and lives."""
        client = docker_client()
        engine: Any = client.api
        found = engine.inspect_container(f"hermes-box-{sandbox_id}")
        client.close()
        self.names.add(found["Id"])
        self.names.add(Path(found["GraphDriver"]["Data"]["MergedDir"]).parent.name)
        self.files.add(Path(found["NetworkSettings"]["SandboxKey"]).name)

    def leaks(self, executor: int, before: tuple[int, int]) -> Leaks:
        """What is left of all of them."""
        mounts = Path("/proc/self/mountinfo").read_text() + _text(f"/proc/{executor}/mountinfo")
        groups = {path for path, _, _ in os.walk("/sys/fs/cgroup")}
        ours = [path.parent for path in Path("/proc").glob("[0-9]*/cmdline") if self._has(path)]
        descriptors, processes = held_by(executor)
        return Leaks(
            containers=len(self._containers()),
            mounts=self._count(mounts.splitlines()),
            cgroups=self._count(groups),
            namespaces=sum(f"/netns/{name} " in mounts for name in self.files)
            + len(namespaces_of(ours, executor)),
            descriptors=max(0, descriptors - before[0]),
            processes=max(0, processes - before[1]) + len(ours),
        )

    def _has(self, path: Path) -> bool:
        return bool(self._count([_text(str(path))]))

    def _containers(self) -> list[str]:
        if not self.files:
            return []
        client = docker_client()
        engine: Any = client.api
        found = engine.containers(all=True, filters={"name": "hermes-box-"})
        client.close()
        return [one["Id"] for one in found if self._count(one["Names"])]

    def _count(self, lines: "set[str] | list[str]") -> int:
        return sum(any(name in line for name in self.names) for line in lines)


def _text(path: str) -> str:
    with suppress(OSError):
        return Path(path).read_text(errors="replace")
    return ""


def namespaces_of(processes: list[Path], executor: int) -> set[str]:
    """The namespaces that processes are in and an executor holds open, but for the machine's."""
    links = [link for process in processes for link in process.glob("ns/*")]
    links += Path(f"/proc/{executor}/fd").iterdir()
    own = {_target(link) for link in Path("/proc/self/ns").iterdir()}
    kinds = {name.partition(":")[0] for name in own}
    found = {_target(link) for link in links}
    return {name for name in found - own if name.partition(":")[0] in kinds}


def _target(link: Path) -> str:
    with suppress(OSError):
        return str(link.readlink())
    return ""


def held_by(executor: int) -> tuple[int, int]:
    """How many descriptors an executor has, and processes below it, dead ones included."""
    descriptors = list(Path(f"/proc/{executor}/fd").iterdir())
    return len(descriptors), len(list(children(executor)))


def children(executor: int) -> Iterator[int]:
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if path.read_text().rpartition(")")[2].split()[1] == str(executor):
                yield int(path.parent.name)


async def cycle(client: Client, times: int, marks: Marks, backend: str) -> None:
    """Sandboxes that are acquired, used and released, some at a time."""
    left = iter(range(times))

    async def work() -> None:
        for _ in left:
            lease = (await client.acquire()).lease
            assert (await client.run_at_once(lease, "true")).code == 0
            marks.names.add(lease.sandbox_id)
            if backend == "docker":
                await asyncio.to_thread(marks.of_container, lease.sandbox_id)
            await client.release(lease)

    await asyncio.gather(*(work() for _ in range(AT_A_TIME)))


async def leaks_of(process: Process, client: Client, times: int, backend: str) -> Leaks:
    """What every third of so many cycles leaves at least: what grows once and stays is no leak."""
    await cycle(client, FIRST_CYCLES, Marks(), backend)
    thirds = [await left_by(process, client, times // 3, backend) for _ in range(3)]
    return Leaks(*(min(counts) for counts in zip(*map(astuple, thirds), strict=True)))


async def left_by(process: Process, client: Client, times: int, backend: str) -> Leaks:
    """What so many cycles leave, once what is ending has ended."""
    marks = Marks()
    before = await asyncio.to_thread(held_by, process.pid)
    await cycle(client, times, marks, backend)
    found = NONE
    for _ in range(SETTLED_WITHIN_S):
        await asyncio.sleep(1)
        found = await asyncio.to_thread(marks.leaks, process.pid, before)
        if found == NONE:
            break
    return found


@pytest.mark.timeout(36_000)
@pytest.mark.parametrize("backend", EVERYTHING_HELD)
async def test_sandboxes_leave_nothing(backend: str, tmp_path: Path) -> None:
    settings = await asyncio.to_thread(executor_settings, tmp_path, backend)
    async with Process(settings) as process, process.client() as client:
        found = await leaks_of(process, client, scale().cycles, backend)
        assert found == NONE
        assert await process.stop() == 0
    await end_boxes(settings)
