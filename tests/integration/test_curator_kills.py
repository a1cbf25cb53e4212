"""A curator that is killed at any write leaves the library as it was, or as it is to be."""

import asyncio
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from agent_service.profiles.curation.reports import Report
from tests.integration import curator_dying
from tests.integration.curator_dying import ORDER
from tests.support.curation import curation, fill, tree
from tests.support.dying import dies

TEMPORARY = re.compile(r"\..+\.[0-9a-f]{12}")


def skills(root: Path) -> Mapping[str, bytes]:
    """A library without the records, in which there are times, and without what a killed writer
    left beside its place."""
    return {
        path: data
        for path, data in tree(root).items()
        if path != ".usage.json" and not TEMPORARY.fullmatch(path.rpartition("/")[2])
    }


@pytest.mark.timeout(300)
@pytest.mark.parametrize("work", ["run", pytest.param("rollback", marks=pytest.mark.slow)])
def test_who_is_killed_at_any_write_leaves_a_complete_library(tmp_path: Path, work: str) -> None:
    first = tmp_path / "first"
    fill(first)
    backups: list[str] = []
    if work == "rollback":
        backups = [asyncio.run(curation(first).apply(ORDER)).backup_id]

    def make(home: Path) -> Report:
        curating = curation(home)
        return asyncio.run(
            curating.restore("undone", backups[0]) if backups else curating.apply(ORDER)
        )

    before, whole = skills(first / "skills"), tmp_path / "whole"
    shutil.copytree(first, whole)
    make(whole)
    after, seen = skills(whole / "skills"), set[str]()
    count = 0
    while True:
        home = tmp_path / str(count)
        shutil.copytree(first, home)
        if not dies(curator_dying.__name__, home, count, *backups):
            break
        asyncio.run(curation(home).recover())
        now = skills(home / "skills")
        assert now in (before, after)
        seen.add("after" if now == after else "before")
        assert not list((home / "skills").glob(".curator_journal*"))
        # Whoever comes back to it brings it to its end, once.
        make(home)
        assert skills(home / "skills") == after
        reported = asyncio.run(curation(home).reports(10))
        assert len(reported) == (2 if backups else 1)
        count += 1
    assert count >= 24
    assert seen == {"before", "after"}
