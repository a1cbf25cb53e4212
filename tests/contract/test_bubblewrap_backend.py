"""What the bubblewrap backend promises beyond the seam: it outlives us, and says what it lacks."""

import asyncio
import gc
import json
import os
import shutil
import signal
import sys
import time
import uuid
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from executor_service.backends.base import Enforcement
from executor_service.backends.bubblewrap.backend import BubblewrapBackend
from executor_service.backends.bubblewrap.host import Host, Program, find_host, why_refused
from executor_service.backends.cgroups import Cgroups
from executor_service.backends.process_records import ProcessMark, Record, Records, end_processes
from executor_service.backends.supervisor_zipapp import build_zipapp
from executor_service.errors import BackendUnavailable, BoxCreateFailed
from executor_service.link.exec_handle import ExecHandle
from executor_service.supervisor.processes import read_table
from tests.contract.dying_executor import DyingExecutor
from tests.e2e.processes import check_nothing_left, end_users_of
from tests.support.boxes import SMALL, Recorder, Yard, new_spec, open_console, open_yard
from tests.support.requirements import require
from tests.support.users import python_for_everybody

BACKEND = "from executor_service.backends.bubblewrap.backend import BubblewrapBackend as Backend"


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    async with open_yard("bubblewrap", tmp_path) as opened:
        yield opened


def adopting(recorders: list[Recorder]) -> object:
    def adopt(command: ExecHandle) -> Recorder:
        recorders.append(Recorder(command))
        return recorders[-1]

    return adopt


@pytest.mark.parametrize("moments", [range(0, 40, 4), range(40, 140, 10)], ids=["early", "late"])
async def test_a_box_that_is_being_made_ends_with_its_executor(
    tmp_path: Path, moments: range
) -> None:
    """The executor dies at any moment; the next one knows of the box, or there is none."""
    zipapp = await asyncio.to_thread(build_zipapp)
    for moment_ms in moments:
        folder = tmp_path / str(moment_ms)
        await asyncio.to_thread(folder.mkdir)
        dying = DyingExecutor(BACKEND, folder, "killed")
        await asyncio.to_thread(dying.run, last="Capabilities", after_s=moment_ms / 1000)
        successor = BubblewrapBackend("killed", folder / "backend", zipapp)
        for box in await successor.list_boxes():
            await successor.destroy(box)
        assert await successor.list_boxes() == []
    try:
        await asyncio.to_thread(check_nothing_left, tmp_path)
    finally:
        await asyncio.to_thread(end_users_of, tmp_path)


@pytest.fixture
def users_folder() -> Iterator[Path]:
    """A folder of user 1234, where that user can reach it."""
    require("root", os.geteuid() == 0, "only root can become another user")
    folder = Path("/tmp") / f"hermes-test-{uuid.uuid4().hex}"
    folder.mkdir()
    os.chown(folder, 1234, 1234)
    yield folder
    for record in Records(folder / "backend" / "boxes").all():
        end_processes(record)
    shutil.rmtree(folder)


async def test_an_ordinary_user_can_run_boxes(users_folder: Path) -> None:
    python = await asyncio.to_thread(python_for_everybody)
    require("system-python", bool(python), "no Python like ours in /usr that all users can run")
    owner = f"test-{uuid.uuid4().hex}"
    zipapp = await asyncio.to_thread(build_zipapp)
    backend = BubblewrapBackend(owner, users_folder / "backend", zipapp)
    script = "id -u; pwd; touch made; ls; sleep 0.5; "
    script += "(for i in $(seq 60); do sleep 5 & done) 2>&1 | grep -o 'Cannot fork'"
    dying = DyingExecutor(BACKEND, users_folder, owner, python, user=1234)
    printed = await asyncio.to_thread(dying.run, script)
    assert "available=True" in printed
    assert "pids=<Enforcement.ENFORCED" in printed
    if "memory=<Enforcement.NONE" in printed:
        assert "no control group limits memory" in printed
    (box,) = await backend.list_boxes()
    recorders: list[Recorder] = []
    async with open_console(backend, box, 2, adopting(recorders)):
        await recorders[0].exit()
        lines = recorders[0].stdout.splitlines()
        assert lines == ["1000", "/workspace", "made", "Cannot fork"]
    await backend.destroy(box)


async def test_a_strict_umask_of_the_executor_does_no_harm(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        async with (
            open_yard("bubblewrap", tmp_path) as yard,
            yard.box() as box,
            open_console(yard.backend, box) as console,
        ):
            assert await console.output("umask; touch file; stat -c %a file") == "0022\n644"
    finally:
        os.umask(before)


async def test_a_machine_without_a_system_python(tmp_path: Path) -> None:
    """Then the box gets the Python that runs the executor, and nothing else of its place."""
    own = f"bin/python{sys.version_info.major}.{sys.version_info.minor}"

    def find() -> Host:
        prefix = Path(sys.base_prefix)
        return replace(find_host(), python_prefix=prefix, python=f"/opt/hermes/python/{own}")

    zipapp = await asyncio.to_thread(build_zipapp)
    yard = await Yard.open(
        lambda owner, folder: BubblewrapBackend(owner, folder, zipapp, find), "me", tmp_path
    )
    async with yard.box() as box, open_console(yard.backend, box) as console:
        assert await console.output("tr '\\0' ' ' < /proc/1/cmdline | cut -d' ' -f1") == (
            f"/opt/hermes/python/{own}"
        )
        assert await console.output("ls -A /opt/hermes") == "python\nsupervisor"
        assert await console.output("test -e /root || test -e /home || echo hidden") == "hidden"
    await yard.close()


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (Program(Path("/bin"), "false"), "bubblewrap cannot make a box here"),
        (Program(Path("/nowhere"), "bwrap"), "bubblewrap cannot make a box here"),
    ],
)
async def test_a_bubblewrap_that_does_not_work(
    tmp_path: Path, program: Program, reason: str
) -> None:
    def find() -> Host:
        return Host(program, None, "/usr/bin/python3")

    backend = BubblewrapBackend("me", tmp_path, await asyncio.to_thread(build_zipapp), find)
    capabilities = await backend.probe()
    assert not capabilities.available
    assert reason in capabilities.reason
    assert capabilities.limits.memory is Enforcement.NONE
    spec = await asyncio.to_thread(new_spec, "me", tmp_path)
    with pytest.raises(BoxCreateFailed):
        await backend.create(spec)
    assert await backend.list_boxes() == []
    assert await asyncio.to_thread(os.listdir, tmp_path / "boxes") == []
    await backend.close()


async def test_a_machine_without_bubblewrap(tmp_path: Path) -> None:
    def find() -> Host:
        raise BackendUnavailable("no bubblewrap: install it")

    backend = BubblewrapBackend("me", tmp_path, await asyncio.to_thread(build_zipapp), find)
    capabilities = await backend.probe()
    assert (capabilities.available, capabilities.reason) == (False, "no bubblewrap: install it")
    with pytest.raises(BackendUnavailable):
        await backend.create(await asyncio.to_thread(new_spec, "me", tmp_path))


async def test_what_an_executor_left_half_made_is_removed_later(yard: Yard) -> None:
    boxes = yard.folder / "backend" / "boxes"
    for name, age_s in (("half_made_now", 1), ("half_made_long_ago", 1000)):
        await asyncio.to_thread((boxes / name).mkdir)
        long_ago = time.time() - age_s
        await asyncio.to_thread(os.utime, boxes / name, (long_ago, long_ago))
    assert await yard.backend.list_boxes() == []
    assert await asyncio.to_thread(os.listdir, boxes) == ["half_made_now"]


@pytest.mark.parametrize("key", ["", "../up", "x" * 65])
async def test_keys_are_names(yard: Yard, key: str) -> None:
    spec = replace(await asyncio.to_thread(yard.spec), box_key=key)
    with pytest.raises(BoxCreateFailed, match="key"):
        await yard.backend.create(spec)


async def test_a_key_is_used_once(yard: Yard) -> None:
    spec = await asyncio.to_thread(yard.spec)
    box = await yard.backend.create(spec)
    with pytest.raises(BoxCreateFailed, match="already"):
        await yard.backend.create(spec)
    async with open_console(yard.backend, box) as console:
        assert await console.output("echo unharmed") == "unharmed"


async def test_boxes_live_on_without_the_object_that_made_them(yard: Yard, tmp_path: Path) -> None:
    zipapp = await asyncio.to_thread(build_zipapp)
    before = BubblewrapBackend(yard.owner, tmp_path, zipapp)
    box = await before.create(await asyncio.to_thread(yard.spec))
    await before.close()
    del before
    # A process that somebody should have waited for would be complained of.
    await asyncio.to_thread(gc.collect)
    after = BubblewrapBackend(yard.owner, tmp_path, zipapp)
    assert [one.key for one in await after.list_boxes()] == [box.key]
    await after.destroy(box)
    await after.close()


def _starters() -> list[int]:
    """The programs of this process that start boxes."""
    table = read_table().values()
    ours = [process.pid for process in table if process.parent == os.getpid()]
    return [pid for pid in ours if b"launch.py" in Path(f"/proc/{pid}/cmdline").read_bytes()]


async def test_boxes_outlive_the_program_that_starts_them(yard: Yard) -> None:
    async with yard.box() as first:
        (starter,) = await asyncio.to_thread(_starters)
        os.kill(starter, signal.SIGKILL)
        await asyncio.to_thread(os.waitid, os.P_PID, starter, os.WEXITED | os.WNOWAIT)
        async with yard.box() as second:
            for box in (first, second):
                async with open_console(yard.backend, box) as console:
                    assert await console.output("echo alive") == "alive"


async def test_a_cancelled_creation_leaves_nothing(yard: Yard) -> None:
    spec = await asyncio.to_thread(yard.spec)
    creating = asyncio.ensure_future(yard.backend.create(spec))
    await asyncio.sleep(0.01)
    creating.cancel()
    with pytest.raises(asyncio.CancelledError):
        await creating
    assert await yard.backend.list_boxes() == []


def test_what_was_said_becomes_advice() -> None:
    advice = why_refused("bwrap: setting up uid map: Permission denied")
    assert "uid map" in advice
    assert why_refused("") == "bubblewrap cannot make a box here: it said nothing"


def test_control_groups_of_version_two(tmp_path: Path) -> None:
    """As below a user's service manager: ours gives no controllers on, the one above does."""
    root = tmp_path / "cgroup"
    slice_ = root / "user.slice" / "app.slice"
    own = slice_ / "hermes.scope"
    own.mkdir(parents=True)
    for group, given in ((root, "cpu memory pids"), (slice_, "memory pids"), (own, "")):
        (group / "cgroup.subtree_control").write_text(given)
        (group / "cgroup.procs").write_text("")
    proc = tmp_path / "proc"
    proc.mkdir()
    (proc / "cgroup").write_text("0::/user.slice/app.slice/hermes.scope\n")
    mount = f"30 20 0:26 / {root} rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
    (proc / "mountinfo").write_text(mount)
    found = Cgroups.find(proc)
    assert found.controllers == {"memory", "pids"}
    (group,) = found.make("box", SMALL, extra_pids=1)
    assert group == slice_ / "hermes-box"
    settings = {file.name: file.read_text() for file in group.iterdir()}
    assert settings == {"memory.max": str(SMALL.memory_bytes), "pids.max": str(SMALL.pids + 1)}
    forgotten, new = slice_ / "hermes-forgotten", slice_ / "hermes-new"
    forgotten.mkdir()
    new.mkdir()
    os.utime(forgotten, (0, 0))
    os.utime(group, (0, 0))
    found.sweep()
    assert (forgotten.exists(), new.exists(), group.exists()) == (False, True, True)
    assert found.mounts([group]) == [(group, Path("/sys/fs/cgroup"))]
    (slice_ / "cgroup.subtree_control").write_text("memory")
    assert Cgroups.find(proc).controllers == {"cpu", "memory", "pids"}
    (root / "cgroup.subtree_control").write_text("")
    assert Cgroups.find(proc).controllers == set()


def test_a_box_may_go_while_boxes_are_listed(tmp_path: Path) -> None:
    records, process = Records(tmp_path), ProcessMark.read(os.getpid())
    assert process is not None
    for key in ("a", "b"):
        records.prepare(key)
        records.store(Record(key, "owner", "pool", "/", process, process, ()))
    listed = records.all()
    assert next(listed).key == "a"
    records.forget("b")
    assert list(listed) == []


def test_record_files_hold_what_adoption_needs(tmp_path: Path) -> None:
    async def scenario() -> dict[str, object]:
        async with open_yard("bubblewrap", tmp_path) as yard, yard.box() as box:
            file = tmp_path / "backend" / "boxes" / box.key / "box.json"
            assert (await asyncio.to_thread(file.stat)).st_mode & 0o077 == 0
            folder = await asyncio.to_thread((tmp_path / "backend").stat)
            assert folder.st_mode & 0o077 == 0
            return json.loads(await asyncio.to_thread(file.read_text))

    assert {"key", "owner", "monitor", "first"} <= set(asyncio.run(scenario()))


ALONE = f"""
import asyncio, sys
from pathlib import Path
from executor_service.backends.supervisor_zipapp import build_zipapp
{BACKEND}
backend = Backend("me", Path(sys.argv[1]), build_zipapp())
print(asyncio.run(backend.probe()).reason)
"""


async def test_root_without_other_users_is_told_in_a_line(tmp_path: Path) -> None:
    require("root", os.geteuid() == 0, "commands of other users run as themselves")
    argv = ("unshare", "--user", "--map-root-user", sys.executable, "-c", ALONE, str(tmp_path))
    process = await asyncio.create_subprocess_exec(*argv, stdout=PIPE, stderr=PIPE)
    told, failure = await process.communicate()
    assert (process.returncode, failure) == (0, b"")
    assert b"run Hermes as an ordinary user" in told
    assert told.count(b"\n") == 1
