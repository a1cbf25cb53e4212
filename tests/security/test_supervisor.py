"""What the supervisor holds commands and files to.

The attacks themselves are in the suite of all backends (tests/contract/backend_suite_*.py). Here
they are timed and repeated at scale.
"""

import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from executor_service.errors import FileRefused, StartRefused
from tests.contract.backend_suite_archives import ATTACKS, unpack
from tests.contract.backend_suite_files import get
from tests.security.places import EVERYTHING_HELD
from tests.security.scale import scale
from tests.support.boxes import Console, odd_seconds, open_console, open_yard

pytestmark = pytest.mark.asyncio(loop_scope="module")

REJECTED_WITHIN_S = 2


@pytest.fixture(scope="module", params=EVERYTHING_HELD)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def console(name: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Console]:
    async with (
        open_yard(name, tmp_path_factory.mktemp("boxes")) as yard,
        yard.box() as box,
        open_console(yard.backend, box) as opened,
    ):
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


async def test_magic_links_lead_nowhere(console: Console) -> None:
    with pytest.raises(StartRefused):
        await console.output("pwd", cwd="/proc/self/root")
    with pytest.raises(FileRefused):
        await get(console, "/proc/self/root/etc/passwd")


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
