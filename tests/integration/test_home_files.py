"""Homes as files: an import that is cut off, links, and who else uses the files."""

import asyncio
import os
from pathlib import Path

import pytest

from agent_service.models.oauth.store import LoginFile
from agent_service.profiles.home.base import Existing
from agent_service.profiles.home.files import FileHomes
from agent_service.storage.profiles import FileProfiles
from services.errors import FailedPrecondition
from services.home.files import HomeFile
from services.home.paths import HomeError, HomePaths
from tests.contract.test_home_stores import put
from tests.support.disks import filled, small_disk


async def test_the_lock_of_logins_stays_behind(tmp_path: Path) -> None:
    homes = FileHomes(HomePaths(tmp_path, tmp_path))
    for profile, folder in (("default", tmp_path), ("ann", tmp_path / "profiles" / "ann")):
        async with LoginFile(folder / "auth.json").locked():
            await asyncio.to_thread((folder / "auth.json").write_text, "{}")
        found = await homes.contents(profile)
        assert [file.path for file in found.files] == ["auth.json"]
        assert found.left_out == []


def test_an_import_that_was_cut_off_is_completed_by_the_same_again(tmp_path: Path) -> None:
    homes = FileHomes(HomePaths(tmp_path, tmp_path))
    tree = {("default", "SOUL.md"): b"soul", ("default", "hooks/x"): b"x"}
    again = pytest.raises(HomeError, match="import the same again")
    with small_disk(tmp_path / "hooks", mib=1) as folder, filled(folder), again:
        asyncio.run(put(homes, tree))
    assert (tmp_path / "SOUL.md").read_bytes() == b"soul"
    taken = asyncio.run(put(homes, tree))
    assert (taken.unchanged, taken.added) == ([("default", "SOUL.md")], [("default", "hooks/x")])


async def test_only_what_was_left_long_ago_is_forgotten(tmp_path: Path) -> None:
    homes = FileHomes(HomePaths(tmp_path, tmp_path))
    async with homes.incoming() as incoming:
        await incoming.add(HomeFile("default", "SOUL.md", 0, 0o600))
        await incoming.write(b"text")
        await homes.recover()
        assert (await homes.put(incoming, Existing.REFUSE, dry_run=False)).added
    left = tmp_path / "state" / "incoming-dead"
    await asyncio.to_thread(left.mkdir)
    await asyncio.to_thread(os.utime, left, (0, 0))
    await homes.recover()
    assert not await asyncio.to_thread(left.exists)


def test_nothing_is_written_through_a_link_that_a_user_did_not_make(tmp_path: Path) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (home / "skills").mkdir(parents=True)
    (home / "skills" / "trap").symlink_to(elsewhere)
    homes = FileHomes(HomePaths(home, home))
    with pytest.raises(FailedPrecondition, match="has no place"):
        asyncio.run(put(homes, {("default", "skills/trap/SKILL.md"): b"x"}))
    assert not list(elsewhere.iterdir())


def test_a_home_may_keep_its_parts_elsewhere(tmp_path: Path) -> None:
    home, dotfiles = tmp_path / "home", tmp_path / "dotfiles"
    dotfiles.mkdir()
    home.mkdir()
    (dotfiles / "SOUL.md").write_text("old")
    (home / "SOUL.md").symlink_to(dotfiles / "SOUL.md")
    (home / "skills").symlink_to(dotfiles)
    homes = FileHomes(HomePaths(home, home))
    tree = {("default", "SOUL.md"): b"new", ("default", "skills/x/SKILL.md"): b"x"}
    asyncio.run(put(homes, tree, Existing.REPLACE))
    assert (home / "SOUL.md").is_symlink()
    assert (dotfiles / "SOUL.md").read_text() == "new"
    assert (dotfiles / "x" / "SKILL.md").read_text() == "x"


async def test_a_memory_that_is_being_changed_is_waited_for(tmp_path: Path) -> None:
    home = HomePaths(tmp_path, tmp_path)
    homes, profiles = FileHomes(home), FileProfiles(home)
    tree = {("default", "memories/USER.md"): b"theirs"}
    async with profiles.opened("default", "memories/USER.md") as document:
        waiting = asyncio.create_task(put(homes, tree, Existing.REPLACE))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        await document.replace(b"ours")
    assert (await waiting).replaced == [("default", "memories/USER.md")]
    assert await profiles.read("default", "memories/USER.md") == [b"theirs"]
