"""Paths are opened without magic links and without races."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from executor_service.supervisor.paths import Paths


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "file").write_text("file of a")
    (tmp_path / "top").write_text("top")
    (tmp_path / "a" / "up").symlink_to("../top")
    (tmp_path / "absolute").symlink_to(tmp_path / "a")
    (tmp_path / "chain").symlink_to("absolute/up")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "magic").symlink_to("/proc/self/root")
    (tmp_path / "dangling").symlink_to("a/new")
    return tmp_path


@pytest.fixture
def paths(tree: Path) -> Iterator[Paths]:
    before = open_descriptors()
    made = Paths(str(tree))
    yield made
    os.close(made._root)  # pyright: ignore[reportPrivateUsage]
    assert open_descriptors() == before, "descriptors are left open"


UP = "../" * 16
"""More than any folder of tests is deep."""


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def read(paths: Paths, path: str) -> str:
    fd = paths.open(path, os.O_RDONLY)
    with os.fdopen(fd) as file:
        return file.read()


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("top", "top"),
        ("./a//file", "file of a"),
        ("a/b/../file", "file of a"),
        ("a/up", "top"),
        ("absolute/file", "file of a"),
        ("chain", "top"),
        (f"{UP}etc/hostname/../passwd/..", None),
    ],
)
def test_ordinary_paths(paths: Paths, path: str, content: str | None) -> None:
    if content is None:
        with pytest.raises(NotADirectoryError):
            read(paths, path)
    else:
        assert read(paths, path) == content


def test_absolute_paths(paths: Paths, tree: Path) -> None:
    assert read(paths, str(tree / "a" / "file")) == "file of a"
    fd = paths.open_directory("/")
    assert os.fstat(fd).st_ino == Path("/").stat().st_ino
    os.close(fd)


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("loop", errno.ELOOP),
        ("loop/x", errno.ELOOP),
        ("magic/etc/passwd", errno.ELOOP),
        ("/proc/self/cwd/x", errno.ELOOP),
        ("/proc/self/fd/0", errno.ELOOP),
        ("missing", errno.ENOENT),
        ("missing/x", errno.ENOENT),
        ("top/x", errno.ENOTDIR),
        ("", errno.EINVAL),
        ("a\0b", errno.EINVAL),
        ("\ud800", errno.EINVAL),
        ("x" * 256, errno.ENAMETOOLONG),
        ("x/" * 3000, errno.ENAMETOOLONG),
    ],
)
def test_what_is_refused(paths: Paths, path: str, code: int) -> None:
    with pytest.raises(OSError, match=r"\w") as refused:
        paths.open(path, os.O_RDONLY)
    assert refused.value.errno == code


def test_a_link_itself_can_be_opened(paths: Paths) -> None:
    fd = paths.open("a/up", os.O_PATH | os.O_NOFOLLOW)
    assert os.readlink("", dir_fd=fd) == "../top"
    os.close(fd)


@pytest.mark.parametrize(
    ("path", "follow", "folder", "name"),
    [
        ("a/new", False, "a", "new"),
        ("a/up", False, "a", "up"),
        ("a/up", True, ".", "top"),
        ("chain", True, ".", "top"),
        ("dangling", True, "a", "new"),
        ("a/b/", False, "a", "b"),
    ],
)
def test_parents(paths: Paths, tree: Path, path: str, follow: bool, folder: str, name: str) -> None:
    fd, found = paths.open_parent(path, follow)
    assert (os.fstat(fd).st_ino, found) == ((tree / folder).stat().st_ino, name)
    os.close(fd)


@pytest.mark.parametrize("path", ["..", "a/..", "/", ".", "loop", "magic/x", "/proc/self/exe"])
def test_parents_that_are_refused(paths: Paths, path: str) -> None:
    with pytest.raises(OSError, match=r"\w"):
        paths.open_parent(path, follow=True)
