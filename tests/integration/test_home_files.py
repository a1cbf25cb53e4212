"""Homes as files: an import that was cut off, links, and who else uses the files."""

import asyncio
import json
from pathlib import Path

import pytest

from agent_service.home.base import Existing
from agent_service.home.files import DECISION, FOLDER, FileHomes
from agent_service.oauth.store import LoginFile
from agent_service.storage.profiles import FileProfiles
from services.errors import FailedPrecondition
from services.home import HomePaths
from services.home_files import HomeFile
from tests.contract.test_home_stores import put


def cut_off(home: Path, decided: list[dict[str, object]], aside: dict[str, str]) -> Path:
    """Leave what somebody leaves who dies with an import under way."""
    folder = home / "state" / FOLDER / "imp_dead"
    folder.mkdir(parents=True)
    for name, text in aside.items():
        (folder / name).write_text(text)
    if decided:
        (folder / DECISION).write_text(json.dumps(decided))
    return folder


def decided(number: int, path: str, before: str = "") -> dict[str, object]:
    return {"number": number, "profile": "default", "path": path, "mode": 384, "before": before}


def test_what_was_decided_is_finished_and_what_changed_since_stays(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("written since")
    files = [decided(0, "done"), decided(1, "a/missing"), decided(2, "mine")]
    (tmp_path / "done").write_text("done")  # which is no longer aside
    folder = cut_off(tmp_path, files, {"1": "late", "2": "too late"})
    asyncio.run(FileHomes(HomePaths(tmp_path, tmp_path)).recover())
    assert (tmp_path / "done").read_text() == "done"
    assert (tmp_path / "a" / "missing").read_text() == "late"
    assert (tmp_path / "mine").read_text() == "written since"
    assert not folder.exists()


def test_what_cannot_be_finished_waits_for_another_try(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a").write_text("a file where a folder is needed")
    folder = cut_off(tmp_path, [decided(0, "a/missing")], {"0": "late"})
    homes = FileHomes(HomePaths(tmp_path, tmp_path))
    asyncio.run(homes.recover())
    (said,) = [record.getMessage() for record in caplog.records]
    assert f"{tmp_path}/a/missing" in said
    assert "start the agent again" in said
    assert f"or delete {folder}" in said
    (tmp_path / "a").unlink()
    asyncio.run(homes.recover())
    assert (tmp_path / "a" / "missing").read_text() == "late"
    assert not folder.exists()


async def test_the_lock_of_logins_stays_behind(tmp_path: Path) -> None:
    homes = FileHomes(HomePaths(tmp_path, tmp_path))
    for profile, folder in (("default", tmp_path), ("ann", tmp_path / "profiles" / "ann")):
        async with LoginFile(folder / "auth.json").locked():
            await asyncio.to_thread((folder / "auth.json").write_text, "{}")
        found = await homes.contents(profile)
        assert [file.path for file in found.files] == ["auth.json"]
        assert found.left_out == []


def test_what_was_not_decided_is_forgotten(tmp_path: Path) -> None:
    folder = cut_off(tmp_path, [], {"0": "half"})
    asyncio.run(FileHomes(HomePaths(tmp_path, tmp_path)).recover())
    assert not folder.exists()


async def test_another_replica_s_import_is_left_alone(tmp_path: Path) -> None:
    homes = FileHomes(HomePaths(tmp_path, tmp_path))
    async with homes.incoming() as incoming:
        await incoming.add(HomeFile("default", "SOUL.md", 0, 0o600))
        await incoming.write(b"text")
        await FileHomes(HomePaths(tmp_path, tmp_path)).recover()
        await incoming.put(Existing.REFUSE, dry_run=False)
    assert await asyncio.to_thread((tmp_path / "SOUL.md").read_text) == "text"


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
