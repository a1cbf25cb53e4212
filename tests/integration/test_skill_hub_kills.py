"""An update that is killed at any write leaves a skill as it was, or as it is to be."""

import shutil
from pathlib import Path

import pytest

from agent_service.profiles.skills.files import HomeSkillFiles
from agent_service.profiles.skills.hub.hub import HubOptions
from tests.integration import hub_dying
from tests.support.curation import tree
from tests.support.dying import dies
from tests.support.hubs import SAFE, committed, hub, made, repository
from tests.support.skills import run

NEW = {"SKILL.md": SAFE["SKILL.md"] + "\nMore.\n", "assets/list.txt": "a\n"}


@pytest.mark.timeout(180)
def test_an_update_that_is_killed_at_any_write_is_whole_in_the_end(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", {"notes": SAFE})
    library = tmp_path / "skills"
    run(made(hub(HomeSkillFiles(library)).install(str(repo), ["notes"], HubOptions())))
    before = {path: text.encode() for path, text in SAFE.items()}
    (repo / "skills/notes/scripts/count.py").unlink()
    committed(repo, {"notes": NEW})
    kept = {path: text for path, text in SAFE.items() if not path.startswith("scripts/")}
    after = {path: text.encode() for path, text in {**kept, **NEW}.items()}
    seen: list[str] = []
    while True:
        copy = tmp_path / f"skills{len(seen)}"
        shutil.copytree(library, copy)
        if not dies(hub_dying.__name__, copy, len(seen)):
            break
        run(hub(HomeSkillFiles(copy)).recover())
        found = tree(copy)
        inside = {path: data for path, data in found.items() if path.startswith("notes/")}
        now = {path.removeprefix("notes/"): data for path, data in inside.items()}
        assert now in (before, after)
        assert ".hub_journal.json" not in found
        seen.append("before" if now == before else "after")
    assert seen[0] == "before"
    assert seen.count("after") >= 4
