"""The supervisor: what it imports, its paths and its streams."""

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executor_service.supervisor import light
from executor_service.supervisor.frames import (
    MAX_DATA_BYTES,
    MAX_OUTPUT_BYTES,
    STDIN_WINDOW_BYTES,
    FrameError,
)
from executor_service.supervisor.paths import Paths
from executor_service.supervisor.streams import InputStream, OutputStream

CHECK = r"""
import sys
sys.path.insert(0, sys.argv[1])
hidden = sys.argv[2:]
for name in hidden:
    sys.modules[name] = None
import light
assert ("json" in sys.modules, "hashlib" in sys.modules) == (bool(hidden), bool(hidden))
for text in (b"", b"{} ", b"{", b"nul", b"[1,]", b"\xff", b"{}{}", b"'a'", b"[" * 100_000):
    try:
        light.from_json(text)
    except (ValueError, RecursionError):
        continue
    raise AssertionError(text[:9])
import hashlib, json
assert light.sha256(b"x").hexdigest() == hashlib.new("sha256", b"x").hexdigest()
for value in ({}, {"a": [1, 2.5, None, True, "\udc80\xe9\n", {"b": {}}]}, "x", -(10**30), 1e300):
    text = light.to_json(value)
    assert text == json.dumps(value, separators=(",", ":")).encode(), text
    assert light.from_json(text) == value
"""


@pytest.mark.parametrize("hidden", [(), ("_json", "_sha2", "_sha256")], ids=["with", "without"])
def test_json_is_the_usual_one(hidden: tuple[str, ...]) -> None:
    folder = str(Path(light.__file__).parent)
    argv = [sys.executable, "-I", "-S", "-c", CHECK, folder, *hidden]
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


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


class Reader:
    """An executor that takes what it is sent and checks that it fits."""

    def __init__(self, stream: OutputStream) -> None:
        self.stream = stream
        self.data = b""

    def take(self, most: int) -> None:
        for _ in range(most):
            chunk = self.stream.next_chunk()
            if chunk is None:
                return
            offset, data = chunk
            assert offset == len(self.data)
            assert data
            self.data += data


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(1, 6000)),
        st.tuples(st.just("take"), st.integers(1, 4)),
        st.tuples(st.just("ack"), st.integers(0, 100)),
        st.tuples(st.just("reconnect"), st.integers(0, 100)),
    ),
    max_size=40,
)


@given(STEPS)
def test_whatever_happens_every_byte_comes_once(steps: list[tuple[str, int]]) -> None:
    ours, theirs = os.pipe()
    os.set_blocking(ours, False)
    stream, written, saved = OutputStream(1, ours), b"", b""
    reader = Reader(stream)
    for what, amount in steps:
        if what == "write":
            data = bytes((len(written) + i) % 251 for i in range(amount))
            os.write(theirs, data)
            written += data
            while stream.read():
                pass
        elif what == "take":
            reader.take(amount)
        else:
            upto = len(saved) + (len(reader.data) - len(saved)) * amount // 100
            saved = reader.data[:upto]
            stream.ack(upto)
            if what == "reconnect":
                stream.rewind()
                reader.data = saved
    os.close(theirs)
    reader.take(10_000)
    assert reader.data == written
    assert stream.all_sent
    assert not stream.read()
    assert not stream.idle
    stream.ack(len(written))
    assert stream.cost_bytes == 0
    os.close(ours)


def test_a_pipe_that_is_filled_takes_more_from_then_on() -> None:
    ours, theirs = os.pipe()
    for fd in (ours, theirs):
        os.set_blocking(fd, False)
    stream = OutputStream(1, ours)
    os.write(theirs, b"a little")
    stream.read()
    small = os.write(theirs, bytes(MAX_OUTPUT_BYTES))
    stream.read()
    large = os.write(theirs, bytes(MAX_OUTPUT_BYTES))
    stream.read()
    assert (small, large) == (MAX_DATA_BYTES, MAX_OUTPUT_BYTES)
    assert stream.end == 8 + small + large
    os.close(ours)
    os.close(theirs)


def test_an_acknowledgement_of_the_future_is_cut() -> None:
    ours, theirs = os.pipe()
    os.write(theirs, b"12345")
    stream = OutputStream(1, ours)
    stream.read()
    stream.ack(99)
    assert stream.acked == 0
    reader = Reader(stream)
    reader.take(9)
    assert reader.data == b"12345"
    os.close(ours)
    os.close(theirs)


def test_tiny_writes_cost_more_than_their_bytes() -> None:
    ours, theirs = os.pipe()
    stream = OutputStream(1, ours)
    for _ in range(100):
        os.write(theirs, b"x")
        stream.read()
        stream.next_chunk()
    assert stream.cost_bytes > 100 * 100
    os.close(ours)
    os.close(theirs)


@pytest.mark.parametrize(
    ("given", "marks"), [(b"", b"\x04"), (b"a line\n", b"\x04"), (b"half a line", b"\x04\x04")]
)
def test_the_input_of_a_terminal_ends_even_within_a_line(given: bytes, marks: bytes) -> None:
    theirs, ours = os.pipe()
    stream = InputStream(ours, is_terminal=True)
    stream.receive(0, memoryview(given), ends=False)
    stream.receive(len(given), memoryview(b""), ends=True)
    assert stream.write()
    assert os.read(theirs, 100) == given + marks
    os.close(ours)
    os.close(theirs)


def test_input_is_taken_once_without_gaps_and_within_bounds() -> None:
    theirs, ours = os.pipe()
    os.set_blocking(ours, False)
    stream = InputStream(ours, is_terminal=False)
    stream.receive(0, memoryview(b"hello "), ends=False)
    stream.receive(0, memoryview(b"hello world"), ends=True)
    assert stream.received == 11
    assert not stream.write()
    assert os.read(theirs, 100) == b"hello world"
    assert stream.written == 11
    with pytest.raises(FrameError):
        stream.receive(12, memoryview(b"x"), ends=False)
    with pytest.raises(FrameError):
        stream.receive(11, memoryview(bytes(STDIN_WINDOW_BYTES + 1)), ends=False)
    os.close(ours)
    os.close(theirs)
