"""Changes of the library: what is written, what is refused, and that each is made once."""

import fcntl
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace
from skills_ref import validate

from agent_service.profiles.skills.changes import Action, SkillChangeRequest
from agent_service.profiles.skills.document import BadSkill
from agent_service.profiles.skills.files import FileRefused, HomeSkillFiles
from agent_service.profiles.skills.shelf import ProfileSkills, SkillShelves
from agent_service.security.threats import ThreatScanner
from agent_service.servicer.skills import SkillServicer
from hermes.agent.v1 import skill_pb2
from services.errors import ServiceUnavailable
from tests.fakes.clock import ManualClock
from tests.support.skills import Kept, document, put, put_skill, run, skills, usage

CREATE = SkillChangeRequest(Action.CREATE, "notes", content=document("notes"), category="office")
PATCH = SkillChangeRequest(Action.PATCH, "notes", old_string="Do it.", new_string="Do it well.")
EDIT = SkillChangeRequest(Action.EDIT, "notes", content=document("notes", body="Otherwise."))
WRITE = SkillChangeRequest(
    Action.WRITE_FILE, "notes", file_path="references/a.md", file_content="one"
)
REMOVE = SkillChangeRequest(Action.REMOVE_FILE, "notes", file_path="references/old.md")
ARCHIVE = SkillChangeRequest(Action.ARCHIVE, "notes")


class Killed(BaseException):
    """The process is gone."""


class DyingNotes(Kept):
    """Notes of a process that is killed before or after it has stored one."""

    def __init__(self, *, stored: bool) -> None:
        super().__init__()
        self._stored = stored

    async def add(self, name: str, text: str) -> None:
        raise AssertionError(name)

    async def put(self, name: str, value: Mapping[str, Any]) -> None:
        if self._stored:
            await super().put(name, value)
        raise Killed


async def _manage(shelf: ProfileSkills, wanted: SkillChangeRequest, key: str = "k") -> str:
    return await shelf.manage(key, wanted, Kept())


def test_a_skill_goes_through_its_life(tmp_path: Path) -> None:
    clock = ManualClock()
    shelf = skills(tmp_path, clock)
    assert "next conversation" in run(_manage(shelf, CREATE))
    folder = tmp_path / "office" / "notes"
    assert validate(folder) == []
    assert usage(tmp_path)["notes"] == {
        "created_by": "agent",
        "use_count": 0,
        "view_count": 0,
        "patch_count": 0,
        "last_used_at": None,
        "last_viewed_at": None,
        "last_patched_at": None,
        "created_at": "2026-01-05T12:00:00+00:00",
        "state": "active",
        "pinned": False,
        "archived_at": None,
    }
    run(clock.advance(60))
    run(_manage(shelf, PATCH))
    assert (folder / "SKILL.md").read_text().endswith("Do it well.\n")
    run(clock.advance(1))
    run(_manage(shelf, WRITE))
    run(clock.advance(1))
    fixed = replace(PATCH, file_path="references/a.md", old_string="one", new_string="two")
    run(_manage(shelf, fixed))
    assert (folder / "references" / "a.md").read_text() == "two"
    run(clock.advance(1))
    run(_manage(shelf, replace(REMOVE, file_path="references/a.md")))
    assert not (folder / "references").exists()
    run(shelf.viewed("notes"))
    run(clock.advance(1))
    run(_manage(shelf, EDIT))
    assert validate(folder) == []
    record = usage(tmp_path)["notes"]
    assert (record["patch_count"], record["view_count"]) == (5, 1)
    assert record["last_patched_at"] == "2026-01-05T12:01:04+00:00"
    assert "kept" in run(_manage(shelf, ARCHIVE))
    assert (tmp_path / ".archive" / "notes" / "SKILL.md").exists()
    assert not folder.exists()
    record = usage(tmp_path)["notes"]
    assert (record["state"], record["archived_at"]) == ("archived", "2026-01-05T12:01:04+00:00")
    assert (run(shelf.catalogue())).skills == ()


def test_what_was_put_away_is_brought_back_into_its_category(tmp_path: Path) -> None:
    shelf = skills(tmp_path)
    run(_manage(shelf, CREATE))
    run(_manage(shelf, ARCHIVE))
    records = usage(tmp_path)
    run(shelf.restore("notes"))
    assert (tmp_path / "office" / "notes" / "SKILL.md").exists()
    run(_manage(shelf, ARCHIVE))
    records["notes"]["archived_from"] = "../office"
    (tmp_path / ".usage.json").write_text(json.dumps(records))
    run(shelf.restore("notes"))
    assert (tmp_path / "notes" / "SKILL.md").exists(), "that is no category"


def test_a_library_that_another_program_holds_may_be_changed_later(tmp_path: Path) -> None:
    put_skill(tmp_path, "notes")
    files = HomeSkillFiles(tmp_path, patience_s=0.1)
    shelves = SkillShelves(lambda _: files, ManualClock(), ThreatScanner())
    asked = skill_pb2.ArchiveSkillRequest(name="notes")
    with (tmp_path / ".usage.json.lock").open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(ServiceUnavailable, match="held by another program"):
            run(SkillServicer(shelves, cast("Any", None)).ArchiveSkill(asked, cast("Any", None)))
    assert (tmp_path / "notes" / "SKILL.md").exists()


def test_an_old_skill_is_brought_into_form_when_it_is_changed(tmp_path: Path) -> None:
    text = "---\nname: notes\nversion: 1.0\ndescription: {a: b}\n---\nDo it."
    put_skill(tmp_path, "notes", text.replace("{a: b}", "'yes: no'"))
    run(_manage(skills(tmp_path), PATCH))
    assert validate(tmp_path / "notes") == []
    assert 'version: "1.0"' in (tmp_path / "notes" / "SKILL.md").read_text()


@pytest.mark.parametrize("broken", ["{", "[]", "\x00"])
def test_records_that_cannot_be_read_are_not_replaced(tmp_path: Path, broken: str) -> None:
    put_skill(tmp_path, "notes")
    put(tmp_path, ".usage.json", broken)
    shelf = skills(tmp_path)
    with pytest.raises(BadSkill, match=r"\.usage\.json"):
        run(shelf.viewed("notes"))
    assert (tmp_path / ".usage.json").read_text() == broken


@pytest.mark.parametrize(
    ("wanted", "problem"),
    [
        (replace(CREATE, name="pr-12", content=document("pr-12")), "one occasion"),
        (replace(CREATE, name="fix-it", content=document("fix-it")), "one occasion"),
        (replace(CREATE, content=""), "needs content"),
        (replace(CREATE, content=document("other")), "called notes"),
        (replace(CREATE, category="../x"), "no name of a category"),
        (replace(CREATE, category="a/../x"), "no name of a category"),
        (replace(CREATE, category="there"), "There is there already"),
        (replace(CREATE, name="there", content=document("there")), "There is there already"),
        (replace(CREATE, name="in", content=document("in")), "There is in already"),
        (replace(PATCH, name="missing"), "no skill"),
        (replace(PATCH, name="../notes"), "no skill"),
        (replace(PATCH, name="there", old_string="nowhere"), "does not stand"),
        (replace(PATCH, name="there", old_string="e"), "times"),
        (replace(PATCH, name="there", old_string=""), "needs old_string"),
        (replace(PATCH, name="there", old_string="name: there", new_string="name: x"), "called"),
        (replace(PATCH, name="there", new_string="Do it."), "changes nothing"),
        (replace(EDIT, name="there", content=""), "needs content"),
        (replace(WRITE, name="there", file_path="../../x"), "no file of a skill"),
        (replace(WRITE, name="there", file_path="SKILL.md"), "no file of a skill"),
        (replace(WRITE, name="there", file_content=None), "file_content"),
        (replace(WRITE, name="there", file_content="x" * 1024 * 1025), "1 MiB"),
        (replace(WRITE, name="there", file_content="x\0"), "NUL"),
        (replace(CREATE, content=document("notes", body="x\0")), "NUL"),
        (replace(REMOVE, name="there"), "has no references/old.md"),
        (replace(ARCHIVE, name="there", absorbed_into="missing"), "no skill"),
        (replace(ARCHIVE, name="there", absorbed_into="there"), "into itself"),
    ],
)
def test_a_change_that_makes_no_sense_is_refused(
    tmp_path: Path, wanted: SkillChangeRequest, problem: str
) -> None:
    put_skill(tmp_path, "there")
    put_skill(tmp_path, "in/side")
    before = _files(tmp_path)
    with pytest.raises((BadSkill, FileRefused), match=problem):
        run(_manage(skills(tmp_path), wanted))
    assert _files(tmp_path) == before


@pytest.mark.parametrize("wanted", [PATCH, EDIT, WRITE, REMOVE, ARCHIVE], ids=lambda w: w.action)
@pytest.mark.parametrize("how", ["bundled", "hub", "pinned"])
def test_what_is_protected_stays(tmp_path: Path, wanted: SkillChangeRequest, how: str) -> None:
    put_skill(tmp_path, "notes")
    put(tmp_path, "notes/references/old.md", "old")
    if how == "bundled":
        put(tmp_path, ".bundled_manifest", "notes:0123\n")
    elif how == "hub":
        put(tmp_path, ".hub/lock.json", '{"installed": {"notes": {}}}')
    else:
        put(tmp_path, ".usage.json", '{"notes": {"pinned": true}}')
    before = _files(tmp_path)
    with pytest.raises(BadSkill, match=r"not changed here|pinned"):
        run(_manage(skills(tmp_path), wanted))
    assert _files(tmp_path) == before


@pytest.mark.parametrize(
    "wanted", [CREATE, PATCH, EDIT, WRITE, REMOVE, ARCHIVE], ids=lambda w: w.action
)
def test_a_change_is_made_once_wherever_its_process_is_killed(
    tmp_path: Path, wanted: SkillChangeRequest
) -> None:
    root, ready = tmp_path / "skills", tmp_path / "ready"
    if wanted is not CREATE:
        put_skill(ready, "notes")
        put(ready, "notes/references/old.md", "old")
    ready.mkdir(exist_ok=True)
    shutil.copytree(ready, root)
    kept = Kept()
    told = run(skills(root).manage("k", wanted, kept))
    whole = _files(root)
    # The result was not stored: the call is made again, as often as need be.
    for _ in range(2):
        assert run(skills(root).manage("k", wanted, kept)) == told
        assert _files(root) == whole
    for stored in (False, True):
        shutil.rmtree(root)
        shutil.copytree(ready, root)
        notes = DyingNotes(stored=stored)
        with pytest.raises(Killed):
            run(skills(root).manage("k", wanted, notes))
        again = Kept()
        again.values = notes.values
        assert run(skills(root).manage("k", wanted, again)) == told
        assert _files(root) == whole
    # The file was written, its record was not.
    (root / ".usage.json").unlink()
    assert run(skills(root).manage("k", wanted, kept)) == told
    assert _files(root) == whole


def _files(root: Path) -> dict[str, str]:
    found = {
        str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()
    }
    return {name: text for name, text in found.items() if not name.endswith(".lock")}
