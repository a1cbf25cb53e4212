"""A curator that is killed at any write leaves the library as it was, or as it is to be."""

import asyncio
import os
import random
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from agent_service.curation.curation import Order
from tests.curation import curation, fill, plan, tree
from tests.markdown import ROOT

ORDER = Order(
    "killed",
    plan=plan(
        *("git-log -> git-history", "git-rebase -> git-history", "mail-send -> mail-read"),
        prunings=("oddity",),
    ),
)
DYING = """
import asyncio, os, signal, sys
from pathlib import Path
from agent_service.skills import home_files
from tests.curation import curation
from tests.integration.test_curator_kills import ORDER

left = int(sys.argv[2])

def count():
    global left
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    left -= 1

def watched(change):
    def changed(self, *arguments):
        count()
        change(self, *arguments)
    return changed

def halfway(write):
    def written(*arguments):
        write(*arguments)
        count()
    return written

for name in ("_write", "_remove", "_move"):
    setattr(home_files.HomeSkillFiles, name, watched(getattr(home_files.HomeSkillFiles, name)))
# What is written stands beside its place then.
home_files._write_through = halfway(home_files._write_through)
curating = curation(Path(sys.argv[1]))
asyncio.run(curating.restore("undone", sys.argv[3]) if sys.argv[3] else curating.apply(ORDER))
"""
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


def dies(home: Path, after: int, backup_id: str = "") -> bool:
    """Whether a curator that is killed at its step of that number, from 0, gets so far.

    It goes back to a backup, or makes the run where none is named.
    """
    command = [sys.executable, "-c", DYING, str(home), str(after), backup_id]
    ended = subprocess.run(command, cwd=ROOT, check=False, env=dict(os.environ), timeout=60)
    assert ended.returncode in (0, -signal.SIGKILL)
    return ended.returncode != 0


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
        if not dies(home, count):
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
        if not dies(home, count, backup_id):
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
    while dies(home, chance.randrange(1, 9)):
        pass
    assert whole(root).keys() == after.keys()
    assert skills(whole(root)) == skills(after)
