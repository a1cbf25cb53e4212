"""How much of an archive is unpacked, and that nothing is left of one that is refused."""

import io
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from executor_service.supervisor import archives
from executor_service.supervisor.files import FileError
from tests.contract.backend_suite_archives import entry, tar


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    """The folder in which an archive is unpacked."""
    fd = os.open(tmp_path, os.O_RDONLY)
    yield fd
    os.close(fd)


def unpack(folder: int, archive: bytes, most: int) -> None:
    for _ in archives.unpack(io.BytesIO(archive), folder, "part", most):
        pass


@pytest.mark.parametrize(
    "names",
    [[f"f{n}" for n in range(101)], [f"{n}/" + "d/" * 50 + "x" for n in range(2)]],
    ids=["files", "folders on the way"],
)
def test_no_more_is_made_than_may_be(folder: int, names: list[str]) -> None:
    archive = tar(*[entry(name) for name in names])
    with pytest.raises(FileError, match="more than it may"):
        unpack(folder, archive, most=100)
    assert os.listdir(folder) == ["part"]
    for _ in archives.undo(folder, "part", at_once=False):
        pass
    assert os.listdir(folder) == []
    unpack(folder, archive, most=200)


@pytest.mark.parametrize("at_once", [False, True])
def test_undoing_ends_what_it_began(folder: int, *, at_once: bool) -> None:
    unpack(folder, tar(*[entry(f"{n}/x") for n in range(50)]), most=1000)
    steps = archives.undo(folder, "part", at_once=at_once)
    next(steps, None)
    steps.close()
    assert os.listdir(folder) == []
    assert list(archives.undo(folder, "part", at_once=at_once)) == []
