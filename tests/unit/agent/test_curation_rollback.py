"""Going back undoes what the curator has changed, and nothing that anybody else has."""

import json
from pathlib import Path

import pytest

from agent_service.profiles.curation.changes import Kind
from agent_service.profiles.curation.reports import Report
from services.errors import NotFound
from tests.support.curation import apply, curation, fill, plan, skill_files, tree
from tests.support.skills import document, put, put_skill, run, usage

HISTORY = plan("git-log -> git-history", "git-rebase -> git-history")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return fill(tmp_path)


def back(home: Path, run_id: str = "back", backup_id: str = "") -> Report:
    return run(curation(home).restore(run_id, backup_id))


def kept(report: Report) -> dict[str, str]:
    return {done.name: done.reason for done in report.refusals}


def pin(root: Path, name: str) -> None:
    records = json.loads((root / ".usage.json").read_text())
    records[name]["pinned"] = True
    put(root, ".usage.json", json.dumps(records))


def test_a_run_that_changes_nothing_makes_no_backup(root: Path, tmp_path: Path) -> None:
    put_skill(root, "my-own", document("my-own"))
    report = apply(tmp_path, "", run_id="nothing")
    assert (report.summary, report.backup_id) == ("nothing to change", "")
    assert "my-own" in json.loads((root / ".usage.json").read_text())
    with pytest.raises(NotFound, match="there is no backup"):
        back(tmp_path)
    made = apply(tmp_path, plan("mail-send -> mail-read"), run_id="one")
    apply(tmp_path, "", run_id="nothing again")
    assert run(curation(tmp_path).state())[1] == [made.backup_id]


def test_what_was_changed_since_stays_and_the_rest_is_undone(root: Path, tmp_path: Path) -> None:
    before = tree(root)
    apply(tmp_path, plan(*HISTORY_AND_MAIL, prunings=("oddity",)))
    put(root, "mail-read/SKILL.md", document("mail-read", "changed by hand"))
    put_skill(root, "oddity", document("oddity", "another one, of a hub"))
    changed = {name: skill_files(root, name) for name in ("mail-read", "oddity")}
    report = back(tmp_path)
    assert {name: skill_files(root, name) for name in changed} == changed
    assert set(kept(report)) == {"mail-read", "oddity"}
    assert "changed since" in kept(report)["mail-read"]
    told = {done.name: done.kind for done in report.changes}
    restored = ("git-log", "git-rebase", "mail-send")
    assert told == {"git-history": Kind.REMOVED} | dict.fromkeys(restored, Kind.RESTORED)
    assert report.summary == "skills: 3 restored, 1 removed"
    for name in restored:
        files = {path: data for path, data in before.items() if f"{name}/" in path}
        assert skill_files(root, name) == files
    assert not (root / "dev/git-history").exists()
    # The one that was put away is still to be had.
    assert (root / ".archive/oddity/SKILL.md").read_bytes() == before["oddity/SKILL.md"]


HISTORY_AND_MAIL = (
    *("git-log -> git-history", "git-rebase -> git-history"),
    "mail-send -> mail-read",
)


@pytest.mark.parametrize("how", ["pinned", "a file more", "a text"])
def test_a_skill_of_the_curator_that_somebody_took_up_stays(
    root: Path, tmp_path: Path, how: str
) -> None:
    apply(tmp_path, HISTORY)
    match how:
        case "pinned":
            pin(root, "git-history")
        case "a file more":
            put(root, "dev/git-history/references/mine.md", "mine")
        case _:
            put(root, "dev/git-history/SKILL.md", document("git-history", "mine"))
    before = skill_files(root, "git-history")
    report = back(tmp_path)
    assert skill_files(root, "git-history") == before
    assert set(kept(report)) == {"git-history"}
    assert {"git-log", "git-rebase"} <= {path.name for path in (root / "dev").iterdir()}


def test_a_skill_stays_in_the_archive_while_another_has_its_name(
    root: Path, tmp_path: Path
) -> None:
    apply(tmp_path, HISTORY)
    put_skill(root, "git-log", document("git-log", "of a hub"))
    report = back(tmp_path)
    assert "another skill of that name" in kept(report)["git-log"]
    assert not (root / "dev/git-log").exists()
    assert (root / ".archive/git-log/SKILL.md").exists()


def test_use_since_is_kept_and_a_state_is_given_back(root: Path, tmp_path: Path) -> None:
    records = {name: {"state": "stale"} for name in ("oddity", "mail-read")}
    put(root, ".usage.json", json.dumps(records))
    apply(tmp_path, plan("mail-send -> mail-read"))
    assert usage(root)["mail-read"]["state"] == "active"
    later = json.loads((root / ".usage.json").read_text())
    later["oddity"] |= {"use_count": 7}
    later["mail-read"] |= {"use_count": 57}
    put(root, ".usage.json", json.dumps(later))
    back(tmp_path)
    assert usage(root)["mail-read"]["state"] == "stale"
    assert usage(root)["oddity"]["use_count"] == 7
    assert usage(root)["mail-read"]["use_count"] == 57


def test_several_runs_are_undone_with_what_nobody_changed_between(
    root: Path, tmp_path: Path
) -> None:
    first = apply(tmp_path, plan("mail-send -> mail-read", prunings=("oddity",)), run_id="a")
    put(root, "mail-read/SKILL.md", (root / "mail-read/SKILL.md").read_text() + "\nMine.\n")
    mine = skill_files(root, "mail-read")
    second = apply(tmp_path, plan("git-log -> mail-read"), run_id="b")
    report = back(tmp_path, "c", first.backup_id)
    assert set(kept(report)) == {"mail-read"}
    told = {done.name for done in report.changes}
    assert told == {"mail-send", "oddity", "git-log", "mail-read"}
    assert skill_files(root, "mail-read") == mine, "without what the second run put there"
    # That is undone as well, and then the second run alone.
    back(tmp_path, "d", report.backup_id)
    assert skill_files(root, "mail-read") != mine
    back(tmp_path, "e", second.backup_id)
    assert skill_files(root, "mail-read") == mine
