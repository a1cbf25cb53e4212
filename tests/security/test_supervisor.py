"""What the supervisor holds commands and files to, with and without what holds them.

The attacks themselves are in the suite of all backends (tests/contract/backend_suite_*.py). Here
they are timed and repeated at scale, and made once more on a supervisor that lacks its controls.
"""

import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import pytest
import pytest_asyncio

from executor_service.errors import FileRefused, StartRefused
from tests.boxes import Console, Yard, odd_seconds, open_console
from tests.contract.backend_suite_archives import ATTACKS, entry, tar, unpack
from tests.contract.backend_suite_files import get
from tests.security.mutants import supervisor_with
from tests.security.places import EVERYTHING_HELD
from tests.security.scale import scale
from tests.security.yards import yard_with

pytestmark = pytest.mark.asyncio(loop_scope="module")

WITHOUT_CONTROLS = {
    "tree": """
def _kill(self, on_gone):
    self.signal_group(signal.SIGKILL)
    self._forest.loop.after(0.05, lambda: on_gone(0))
Tree.kill = _kill
""",
    "command": "_DRAIN_GRACE_S = 600.0",
    "paths": """
Paths.open = lambda self, path, flags: os.open(self._absolute(path), flags | os.O_CLOEXEC)
""",
    "archives": """
_parts = lambda name: [part for part in name.split("/") if part not in ("", ".")]
_inside = lambda parts, target: target
""",
}
"""A supervisor that kills no more than the first process's group, waits for whoever has the output
open, opens what a path names whatever that is, and unpacks what an archive says."""
REJECTED_WITHIN_S = 2


@pytest.fixture(scope="module", params=EVERYTHING_HELD)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@asynccontextmanager
async def console_of(yard: Yard) -> AsyncGenerator[Console]:
    async with yard.box() as box, open_console(yard.backend, box) as console:
        yield console


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def console(name: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Console]:
    """In a box with the supervisor as it is."""
    folder = tmp_path_factory.mktemp("boxes")
    async with yard_with(name, folder, supervisor_with()) as yard, console_of(yard) as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def weak(name: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Console]:
    """In a box with a supervisor without controls."""
    folder = tmp_path_factory.mktemp("weak")
    mutant = supervisor_with(**WITHOUT_CONTROLS)
    async with yard_with(name, folder, mutant) as yard, console_of(yard) as opened:
        yield opened


async def survivors(console: Console) -> int:
    """How many processes outlive a command that was ended for its time."""
    seconds = odd_seconds()
    escape = "trap '' TERM; "
    escape += f"setsid nohup sleep {seconds} & (setsid sh -c 'sleep {seconds} & sleep {seconds}' &)"
    recorder = await console.shell(
        f"{escape}; sleep {seconds}", run_timeout_s=0.3, kill_grace_s=0.2
    )
    exit_ = await recorder.exit()
    assert exit_.survivors == 0
    names = await console.output("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    return names.count(f"sleep {seconds}")


async def test_no_process_survives_its_command(console: Console) -> None:
    assert await survivors(console) == 0


async def test_without_the_hunt_processes_survive(weak: Console) -> None:
    assert await survivors(weak) > 0


async def result_after_s(console: Console) -> float | None:
    """How long a command takes whose child keeps its output open; None is too long."""
    started = time.monotonic()
    recorder = await console.shell(f"sleep {odd_seconds()} & echo started")
    try:
        await recorder.exit(timeout_s=3)
    except TimeoutError:
        recorder.command.cancel(grace_s=0)
        return None
    return time.monotonic() - started


async def test_an_inherited_output_holds_no_result(console: Console) -> None:
    after_s = await result_after_s(console)
    assert after_s is not None
    assert after_s < 1.3


async def test_without_the_grace_it_does(weak: Console) -> None:
    assert await result_after_s(weak) is None


async def test_magic_links_lead_nowhere(console: Console) -> None:
    with pytest.raises(StartRefused):
        await console.output("pwd", cwd="/proc/self/root")
    with pytest.raises(FileRefused):
        await get(console, "/proc/self/root/etc/passwd")


async def test_without_the_walk_they_lead_out(weak: Console) -> None:
    assert await weak.output("pwd", cwd="/proc/self/root") == "/"
    assert b"root:" in await get(weak, "/proc/self/root/etc/passwd")


async def raced(console: Console, times: int) -> set[str]:
    """What is read through a link that is swapped all the time, or why nothing is."""
    await console.output(
        "mkdir -p s/a s/b; echo a >s/a/passwd; echo b >s/b/passwd; ln -sfn a s/now"
    )
    swapper = await console.shell(
        "cd s; while :; do ln -sfn a now; ln -sfn /proc/self/root/etc now; ln -sfn b now; done"
    )
    seen: set[str] = set()
    for _ in range(times):
        try:
            seen.add((await get(console, "s/now/passwd")).decode())
        except FileRefused as error:
            seen.add(error.code)
    swapper.command.cancel(grace_s=0)
    await swapper.exit()
    return seen


@pytest.mark.timeout(600)
async def test_a_link_that_is_swapped_is_not_followed_out(console: Console) -> None:
    seen = await raced(console, scale().swaps)
    assert {"a\n", "b\n"} & seen
    assert seen <= {"a\n", "b\n", "LINK_REFUSED", "NOT_FOUND"}


async def test_without_the_walk_a_link_that_is_swapped_is_followed(weak: Console) -> None:
    assert any("root:" in text for text in await raced(weak, 300))


async def test_an_upload_over_a_hard_link_changes_only_its_own_name(console: Console) -> None:
    await console.output("echo kept >first; ln first second")
    async with console.link.files.upload("second") as upload:
        await upload.write(b"new")
        await upload.commit(3, "11507a0e2f5e69d5dfa40a62a1bd7b6ee57e6bcd85c67c9b8431b36fff21c437")
    assert await console.output("cat first second") == "kept\nnew"


@pytest.mark.alone
async def test_attacks_by_archive_are_rejected_soon(console: Console) -> None:
    slowest_s = 0.0
    for make in ATTACKS.values():
        archive = make()
        started = time.monotonic()
        with pytest.raises(FileRefused):
            await unpack(console, "attacked", archive)
        took_s = time.monotonic() - started
        slowest_s = max(slowest_s, took_s)
    assert slowest_s < REJECTED_WITHIN_S
    left = await console.output("find / -xdev -name planted 2>/dev/null; ls -A")
    assert not {"planted", "attacked"} & set(left.split())


async def test_without_the_checks_an_archive_writes_beside_its_folder(weak: Console) -> None:
    await unpack(weak, "attacked", tar(entry("../planted", b"x")))
    assert "planted" in (await weak.output("ls -A")).split()
