"""Copying, measuring and removing folders that commands have filled with whatever they like."""

import json
import os
import signal
import stat
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from executor_service.supervisor.files import FileError
from executor_service.supervisor.folders import ANSWER, copy, handle
from executor_service.supervisor.trees import list_workspaces, measure, remove, remove_empty
from tests.contract.dying_executor import IMPORTS
from tests.support.requirements import require
from tests.support.users import UID, users_folder, users_python

MIB = 1024 * 1024
ANY = 1 << 40


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder of workspaces, with one."""
    (tmp_path / "root" / "wsp_a").mkdir(parents=True)
    return tmp_path / "root"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_copy_is_as_its_source(root: Path) -> None:
    source = root / "wsp_a"
    (source / "some" / "folder").mkdir(parents=True)
    (source / "some" / "script").write_text("#!/bin/sh\n")
    (source / "some" / "script").chmod(0o4750)
    (source / "some" / "link").symlink_to("../nowhere")
    (source / "one").write_bytes(os.urandom(3 * MIB))
    (source / "other").hardlink_to(source / "one")
    os.utime(source / "one", (1_000_000_000, 1_000_000_001))
    (source / "some" / "folder").chmod(0o700)
    done = copy(str(root), "wsp_a", "wsp_b", ANY)
    target = root / "wsp_b"
    assert (target / "one").read_bytes() == (source / "one").read_bytes()
    assert (target / "one").stat().st_mtime == 1_000_000_001
    assert (target / "one").samefile(target / "other")
    assert not (target / "one").samefile(source / "one")
    # A right that it gave away is not given away twice.
    assert (target / "some" / "script").stat().st_mode & 0o7777 == 0o750
    assert (target / "some" / "link").readlink() == Path("../nowhere")
    assert (target / "some" / "folder").stat().st_mode & 0o777 == 0o700
    assert 3 * MIB <= done["bytes"] < 4 * MIB
    (target / "one").write_bytes(b"changed")
    assert (source / "one").stat().st_size == 3 * MIB


def test_nothing_leads_out_and_nothing_hangs(root: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "file").write_text("secret")
    source = root / "wsp_a"
    (source / "out").symlink_to(secret)
    (source / "file").symlink_to(secret / "file")
    (source / "loop").symlink_to(".")
    os.mkfifo(source / "pipe")
    os.mknod(source / "socket", stat.S_IFSOCK | 0o600)
    (source / "kept").write_text("kept")
    done = copy(str(root), "wsp_a", "wsp_b", ANY)
    target = root / "wsp_b"
    assert names(target) == ["file", "kept", "loop", "out"]
    assert (target / "out").is_symlink()
    assert (target / "file").is_symlink()
    assert done["left_out"] == 2
    remove(str(root), "wsp_a")
    remove(str(root), "wsp_b")
    assert list_workspaces(str(root)) == []
    assert (secret / "file").read_text() == "secret"


def test_a_workspace_that_is_a_link_is_nobody_s(root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").touch()
    (root / "wsp_link").symlink_to(outside)
    assert list_workspaces(str(root)) == ["wsp_a"]
    with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
        copy(str(root), "wsp_link", "wsp_b", ANY)
    assert measure(root / "wsp_link", ANY) == (0, False)
    remove(str(root), "wsp_link")
    assert (outside / "file").exists()
    assert measure(root / "wsp_gone", ANY) == (0, True)


def test_holes_stay_holes(root: Path) -> None:
    with (root / "wsp_a" / "sparse").open("wb") as file:
        file.seek(1 << 40)
        file.write(b"end")
    started = time.monotonic()
    copy(str(root), "wsp_a", "wsp_b", MIB)
    assert time.monotonic() - started < 5
    status = (root / "wsp_b" / "sparse").stat()
    assert status.st_size == (1 << 40) + 3
    assert status.st_blocks < 100
    with (root / "wsp_b" / "sparse").open("rb") as file:
        file.seek(1 << 40)
        assert file.read() == b"end"


def test_what_is_too_large_or_too_deep_leaves_nothing(root: Path) -> None:
    (root / "wsp_a" / "large").write_bytes(bytes(2 * MIB))
    with pytest.raises(FileError, match="larger than") as refused:
        copy(str(root), "wsp_a", "wsp_b", MIB)
    assert refused.value.code == "TOO_LARGE"
    (root / "wsp_a" / "large").unlink()
    make_deep(root / "wsp_a", 300)
    with pytest.raises(FileError, match="inside each other") as refused:
        copy(str(root), "wsp_a", "wsp_b", ANY)
    assert refused.value.code == "TOO_DEEP"
    assert names(root) == ["wsp_a"]


def make_deep(folder: Path, depth: int) -> None:
    """Folders in folders, deeper than a path can say."""
    fd = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d" * 100, dir_fd=fd)
        inner = os.open("d" * 100, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    os.close(fd)


def test_whatever_was_left_goes(root: Path) -> None:
    make_deep(root / "wsp_a", 600)
    (root / "wsp_a" / "closed" / "inner").mkdir(parents=True)
    (root / "wsp_a" / "closed" / "file").touch()
    for name in ("closed/inner", "closed"):
        (root / "wsp_a" / name).chmod(0)
    (root / ".part-wsp_a" / "begun").mkdir(parents=True)
    remove(str(root), "wsp_a")
    assert names(root) == []
    remove(str(root), "wsp_a")


def test_only_what_is_empty_goes(root: Path) -> None:
    (root / "wsp_b").mkdir()
    (root / "wsp_a" / ".hidden").touch()
    assert not remove_empty(str(root), "wsp_a")
    assert remove_empty(str(root), "wsp_b")
    assert remove_empty(str(root), "wsp_b")
    assert list_workspaces(str(root)) == ["wsp_a"]


@pytest.mark.parametrize("name", ["../wsp_a", ".", "..", "", "a/b", ".part-x", "/etc", "x" * 300])
def test_a_name_is_a_name(root: Path, name: str) -> None:
    for do in ("remove", "copy", "remove_empty"):
        wanted = {"do": do, "root": str(root), "name": name, "names": [name], "target": "x"}
        with pytest.raises(FileError, match="cannot be the name"):
            handle({**wanted, "most_bytes": 1})
    wanted = {"do": "copy", "root": str(root), "name": "wsp_a", "target": name, "most_bytes": 1}
    with pytest.raises(FileError, match="cannot be the name"):
        handle(wanted)
    with pytest.raises(FileError, match="cannot be the name"):
        handle({"do": "measure", "root": str(root), "most_bytes": {name: 1}})


def test_what_is_measured_says_whether_that_is_all(root: Path) -> None:
    for number in range(1000):
        (root / "wsp_a" / str(number)).touch()
    for name in ("wsp_deep", "wsp_some"):
        (root / name).mkdir()
    make_deep(root / "wsp_deep", 210)
    (root / "wsp_some" / "file").write_bytes(bytes(100_000))
    (root / "wsp_some" / "out").symlink_to(root / "wsp_a")
    (root / "wsp_some" / "loop").symlink_to(".")
    with (root / "wsp_some" / "sparse").open("wb") as file:
        file.truncate(100 * MIB)
    most_bytes = {"wsp_a": 20_000, "wsp_deep": ANY, "wsp_some": 200_000, "wsp_missing": 0}
    sizes = handle({"do": "measure", "root": str(root), "most_bytes": most_bytes})["sizes"]
    # Nobody looks further once it is too much.
    assert 20_000 < sizes["wsp_a"][0] < 30_000
    assert [sizes[name][1] for name in most_bytes] == [False, False, True, True]
    assert 100_000 <= sizes["wsp_some"][0] < 200_000
    assert sizes["wsp_missing"] == (0, True)


def test_what_its_owner_has_closed_is_measured() -> None:
    with users_folder() as folder:
        closed = folder / "wsp_a" / "closed"
        closed.mkdir(parents=True)
        (closed / "file").write_bytes(bytes(100_000))
        for path in (closed.parent, closed):
            os.chown(path, UID, -1)
        for mode in (0o000, 0o100, 0o400):
            closed.chmod(mode)
            used, is_all = measured_by_its_owner(closed.parent)
            assert is_all
            assert used > 100_000
            assert stat.S_IMODE(closed.stat().st_mode) == 0o500
        closed.chmod(0o700)
        if os.geteuid() == 0:
            # What it cannot open, it cannot tell the size of.
            os.chown(closed, UID + 1, -1)
            assert not measured_by_its_owner(closed.parent)[1]


def measured_by_its_owner(folder: Path) -> tuple[int, bool]:
    """What `measure` says to the ordinary user."""
    measuring = "from executor_service.supervisor.trees import measure"
    code = f"{measuring}; used, is_all = measure({str(folder)!r}, {ANY}); print(used, int(is_all))"
    done = subprocess.run(
        [users_python(), "-c", code],
        env={"PYTHONPATH": ":".join(IMPORTS)},
        user=UID if os.geteuid() == 0 else None,
        capture_output=True,
        text=True,
        check=True,
    )
    used, is_all = map(int, done.stdout.split())
    return used, bool(is_all)


def test_work_ends_with_whoever_asked_for_it(root: Path) -> None:
    for number in range(3000):
        (root / "wsp_a" / str(number)).write_bytes(bytes(4096))
    program = "import sys; from executor_service.supervisor.folders import main; main(sys.argv)"
    wanted = {"do": "copy", "root": str(root), "name": "wsp_a", "target": "wsp_b"}
    request = json.dumps({**wanted, "most_bytes": ANY, "within_s": 60, "attended": True})
    command = [sys.executable, "-c", program, "--folders", request]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(10) == 128 + signal.SIGHUP
    assert not (root / "wsp_b").exists()


def test_who_is_killed_leaves_what_the_next_one_clears(root: Path) -> None:
    for number in range(3000):
        (root / "wsp_a" / str(number)).write_bytes(bytes(4096))
    program = "import sys; from executor_service.supervisor.folders import main; main(sys.argv)"
    wanted = {"do": "copy", "root": str(root), "name": "wsp_a", "target": "wsp_b"}
    request = json.dumps({**wanted, "most_bytes": ANY, "within_s": 60})
    command = [sys.executable, "-c", program, "--folders", request]
    part = root / ".part-wsp_b"
    with subprocess.Popen(command) as process:
        while not part.exists() or not any(part.iterdir()):
            time.sleep(0.001)
        process.kill()
    assert part.exists()
    assert list_workspaces(str(root)) == ["wsp_a"]
    done = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert json.loads(done.removeprefix(ANSWER))["left_out"] == 0
    assert len(names(root / "wsp_b")) == 3000
    assert not part.exists()
    again = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "there is a wsp_b already" in again


def test_the_first_process_of_a_container_also_ends_in_time(root: Path) -> None:
    program = "import sys; from executor_service.supervisor.folders import main; main(sys.argv)"
    request = json.dumps({"do": "list", "root": str(root), "within_s": 1})
    require("root", os.geteuid() == 0, "only root can start the first process of anything")
    namespace = ("unshare", "--pid", "--fork", "--kill-child")
    listener, writer = os.pipe()
    try:
        os.set_blocking(writer, False)
        with suppress(BlockingIOError):
            while os.write(writer, bytes(MIB)):
                pass
        os.set_blocking(writer, True)
        # It waits for ever until somebody reads.
        command = [*namespace, sys.executable, "-c", program, "--folders", request]
        done = subprocess.run(command, stdout=writer, timeout=30, check=False)
    finally:
        os.close(listener)
        os.close(writer)
    assert done.returncode == 128 + signal.SIGALRM
