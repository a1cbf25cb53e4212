"""Every store of skills keeps files and folders in the same way."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_service.profiles.skills.files import FileRefused, SkillFiles
from tests.support.profile_stores import stores

MOST = 1000
SKILL = "research/arxiv/SKILL.md"


@pytest.fixture
async def files(profiles_url: str, tmp_path: Path) -> AsyncIterator[SkillFiles]:
    """The library of a profile in each store in turn, empty."""
    async with stores(profiles_url, tmp_path) as opened:
        yield opened.skills("default")


async def write(files: SkillFiles, path: str, data: bytes) -> None:
    async with files.locked():
        await files.write(path, data)


async def test_files_are_written_read_and_removed(files: SkillFiles) -> None:
    async with files.locked():
        assert SKILL not in await files.tree()
    assert await files.read(SKILL, MOST) is None
    await write(files, SKILL, b"\r\n\xff")
    assert await files.read(SKILL, MOST) == b"\r\n\xff"
    with pytest.raises(FileRefused, match="longer than 2 bytes"):
        await files.read(SKILL, 2)
    before = (await files.tree())[SKILL]
    assert before.size_bytes == 3
    await write(files, SKILL, b"abc")
    assert (await files.tree())[SKILL] != before
    async with files.locked():
        await files.remove(SKILL)
        await files.remove(SKILL)
    assert await files.read(SKILL, MOST) is None


async def test_a_folder_gets_another_place(files: SkillFiles) -> None:
    await write(files, SKILL, b"one")
    await write(files, "research/arxiv/references/api.md", b"two")
    await write(files, "research/arxiv2/SKILL.md", b"other")
    async with files.locked():
        await files.move("research/arxiv", ".archive/arxiv")
        with pytest.raises(FileRefused):
            await files.move("research/arxiv", ".archive/again")
        with pytest.raises(FileRefused, match="is there already"):
            await files.move("research/arxiv2", ".archive/arxiv")
    assert {path for path in await files.tree() if "usage" not in path} == {
        ".archive/arxiv/SKILL.md",
        ".archive/arxiv/references/api.md",
        "research/arxiv2/SKILL.md",
    }
    assert await files.read(".archive/arxiv/references/api.md", MOST) == b"two"


async def test_what_is_too_deep_is_not_listed(files: SkillFiles) -> None:
    await write(files, "a/b/SKILL.md", b"")
    await write(files, "a/b/references/c.md", b"")
    await write(files, "a/b/references/d/e.md", b"")
    await write(files, "1/2/3/4/5/6/7/8", b"")
    await write(files, "1/2/3/4/5/6/7/8.d/9", b"")
    listed = {path for path in await files.tree() if not path.startswith(".")}
    assert listed == {"a/b/SKILL.md", "a/b/references/c.md", "1/2/3/4/5/6/7/8"}


@pytest.mark.parametrize("path", ["../x", "a//b", "a/../b", "a/..", "a\0b", ""])
async def test_what_is_no_path_is_refused(files: SkillFiles, path: str) -> None:
    with pytest.raises(FileRefused):
        await write(files, path, b"x")


async def test_a_file_is_no_folder(files: SkillFiles) -> None:
    await write(files, "a/b", b"x")
    with pytest.raises(FileRefused):
        await write(files, "a/b/c", b"x")
    with pytest.raises(FileRefused):
        await write(files, "a", b"x")


async def test_one_at_a_time_changes_the_library(files: SkillFiles) -> None:
    await write(files, "counter", b"0")

    async def count() -> None:
        async with files.locked():
            before = int(await files.read("counter", MOST) or b"")
            await asyncio.sleep(0)
            await files.write("counter", b"%d" % (before + 1))

    await asyncio.gather(*(count() for _ in range(20)))
    assert await files.read("counter", MOST) == b"20"
