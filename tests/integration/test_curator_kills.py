"""A curator that is killed at any write leaves the library as it was, or as it is to be."""

import asyncio
import random
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.curation import curation, fill, tree
from tests.dying import dies
from tests.integration import curator_dying
from tests.integration.curator_dying import ORDER

DYING = curator_dying.__name__
TEMPORARY = re.compile(r"\..+\.[0-9a-f]{12}")


def skills(found: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """A library without the records, in which there are times."""
    return {path: data for path, data in found.items() if path != ".usage.json"}


def whole(root: Path) -> Mapping[str, bytes]:
    """A library without what stood beside its place when its writer was killed: it is hidden."""
    return {
        path: data
        for path, data in tree(root).items()
        if not TEMPORARY.fullmatch(path.rpartition("/")[2])
    }


@pytest.mark.timeout(300)
def test_a_run_that_is_killed_at_any_write_leaves_a_complete_library(tmp_path: Path) -> None:
    root = fill(tmp_path / "whole")
    before = tree(root)
    asyncio.run(curation(tmp_path / "whole").apply(ORDER))
    after = tree(root)
    seen: set[str] = set()
    count = 0
    while True:
        home = tmp_path / str(count)
        root = fill(home)
        if not dies(DYING, home, count):
            break
        asyncio.run(curation(home).recover())
        now = whole(root)
        if now == before:
            seen.add("before")
        else:
            assert skills(now) == skills(after)
            seen.add("after")
        assert not list(root.glob(".curator_journal*"))
        # Whoever comes back to the run brings it to its end, once.
        asyncio.run(curation(home).apply(ORDER))
        assert skills(whole(root)) == skills(after)
        assert len(asyncio.run(curation(home).reports(10))) == 1
        count += 1
    assert count >= 24
    assert seen == {"before", "after"}


@pytest.mark.timeout(300)
def test_a_rollback_that_is_killed_at_any_write_leaves_a_complete_library(tmp_path: Path) -> None:
    root = fill(tmp_path / "first")
    before = tree(root)
    asyncio.run(curation(tmp_path / "first").apply(ORDER))
    after, seen = tree(root), set[str]()
    _, (backup_id,) = asyncio.run(curation(tmp_path / "first").state())
    count = 0
    while True:
        home = tmp_path / str(count)
        shutil.copytree(tmp_path / "first", home)
        if not dies(DYING, home, count, backup_id):
            break
        asyncio.run(curation(home).recover())
        now = whole(home / "skills")
        assert now in (before, after)
        seen.add("after" if now == after else "before")
        asyncio.run(curation(home).restore("undone", backup_id))
        assert whole(home / "skills") == before
        count += 1
    assert count >= 24
    assert seen == {"before", "after"}


@pytest.mark.timeout(120)
def test_a_run_that_is_killed_again_and_again_gets_there(tmp_path: Path) -> None:
    chance = random.Random(3)
    fill(tmp_path / "whole")
    asyncio.run(curation(tmp_path / "whole").apply(ORDER))
    after = tree(tmp_path / "whole/skills")
    home = tmp_path / "home"
    root = fill(home)
    while dies(DYING, home, chance.randrange(1, 9)):
        pass
    assert whole(root).keys() == after.keys()
    assert skills(whole(root)) == skills(after)
