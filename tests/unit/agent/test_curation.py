"""A run of the curator: its plan, its ages, its state and what it leaves."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from skills_ref import validate

from agent_service.profiles.curation.changes import CurationResult, Kind
from agent_service.profiles.curation.curation import Order
from agent_service.profiles.curation.drafts import Ages, transition
from agent_service.profiles.curation.plan import BadPlan, parse_plan
from agent_service.profiles.curation.state import CuratorState
from agent_service.profiles.skills.document import BadSkill, checked
from agent_service.profiles.skills.usage import SkillState, Usage, timestamp
from services.errors import NotFound
from services.validation import lenient
from tests.fakes.clock import ManualClock
from tests.support.curation import (
    PROTECTED,
    apply,
    curation,
    fill,
    plan,
    skill_files,
    skills_of,
    tree,
)
from tests.support.skills import put, run, usage


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return fill(tmp_path)


def test_a_skill_becomes_a_section_of_another_with_its_files(root: Path, tmp_path: Path) -> None:
    before = skill_files(root, "mail-send")
    report = apply(tmp_path, plan("mail-send -> mail-read"))
    assert [(done.kind, done.name, done.into) for done in report.changes] == [
        (Kind.MERGED, "mail-send", "mail-read")
    ]
    text = (root / "mail-read/SKILL.md").read_text()
    assert checked(text, "mail-read").description == "about mail-read"
    assert validate(root / "mail-read") == []
    assert "What mail-read says, see `references/api.md`" in text
    assert "## mail-send" in text
    # Both have a file of this name, so that the one that comes gets another.
    assert "What mail-send says, see `references/mail-send-api.md`" in text
    assert (root / "mail-read/references/mail-send-api.md").read_text() == "the api of mail-send\n"
    assert (root / "mail-read/references/api.md").read_text() == "the api of mail-read\n"
    assert (root / "mail-read/scripts/send.py").read_text() == "print('sent')\n"
    assert not (root / "mail-send").exists()
    archived = {f".archive/{path}": data for path, data in before.items()}
    assert archived.items() <= tree(root).items()
    assert usage(root)["mail-send"]["state"] == "archived"
    assert usage(root)["mail-read"]["patch_count"] == 1


def test_two_skills_become_a_new_one(root: Path, tmp_path: Path) -> None:
    report = apply(tmp_path, plan("git-log -> git-history", "git-rebase -> git-history"))
    assert [done.kind for done in report.changes] == [Kind.CREATED, Kind.MERGED, Kind.MERGED]
    text = (root / "dev/git-history/SKILL.md").read_text()
    assert checked(text, "git-history").description == "everything about it"
    assert validate(root / "dev/git-history") == []
    assert text.index("## git-log") < text.index("## git-rebase")
    assert usage(root)["git-history"]["created_by"] == "agent"
    # What other programs have recorded stays.
    assert usage(root)["git-log"]["mine"] == 1
    assert {path.name for path in (root / ".archive").iterdir()} == {"git-log", "git-rebase"}


def test_a_long_skill_becomes_a_file_that_is_named(root: Path, tmp_path: Path) -> None:
    long = "word " * 15_000
    put(root, "oddity/SKILL.md", f"---\nname: oddity\ndescription: long\n---\n{long}\n")
    apply(tmp_path, plan("oddity -> mail-read"))
    text = (root / "mail-read/SKILL.md").read_text()
    assert "- `references/oddity.md`: long" in text
    assert long.strip() in (root / "mail-read/references/oddity.md").read_text()


def test_a_pruned_skill_is_archived_and_a_job_keeps_its_own(root: Path, tmp_path: Path) -> None:
    report = apply(tmp_path, plan(prunings=("oddity", "git-log")), jobs=frozenset({"git-log"}))
    assert [(done.kind, done.name) for done in report.changes] == [(Kind.PRUNED, "oddity")]
    (refused,) = report.refusals
    assert (refused.name, refused.reason) == ("git-log", "a job uses it")
    assert (root / ".archive/oddity/SKILL.md").exists()
    assert (root / "dev/git-log/SKILL.md").exists()


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (plan("arxiv -> mail-read"), "it came with Hermes"),
        (plan("shop-hub -> mail-read"), "it was installed from a hub"),
        (plan("pinned-notes -> mail-read"), "the user has pinned it"),
        (plan("mail-read -> arxiv"), "arxiv takes nothing in: it came with Hermes"),
        (plan("mail-read -> pinned-notes"), "the user has pinned it"),
        (plan(prunings=("pinned-notes",)), "the user has pinned it"),
        (plan("nobody -> mail-read"), "there is no such skill"),
        (plan("mail-read -> mail-read"), "so that it stays"),
        (plan("mail-read -> new-one"), "for a single skill"),
        (plan("git-log -> fix-it", "git-rebase -> fix-it"), "no name of a kind of work"),
        (plan("git-log -> dev", "git-rebase -> dev"), "the name of something else"),
        (plan("git-log -> git-rebase", "git-rebase -> mail-read"), "so that it stays"),
    ],
)
def test_what_the_rules_forbid_is_not_done_and_told(
    root: Path, tmp_path: Path, wanted: str, said: str
) -> None:
    before = {path: data for path, data in tree(root).items() if path != ".usage.json"}
    report = apply(tmp_path, wanted)
    assert any(said in done.reason for done in report.refusals), report.refusals
    protected = {path: data for path, data in before.items() if path.split("/")[0] in PROTECTED}
    assert protected.items() <= tree(root).items()


@pytest.mark.parametrize(
    "answer",
    [
        "I would merge them all.",
        "```yaml\nconsolidations: [{from: a, into: b}]\n```",
        "```yaml\nconsolidations: [{from: 1, into: b, reason: c}]\n```",
        "```yaml\nconsolidations: []\ndelete: [a]\n```",
        "```yaml\nconsolidations: [{from: a, into: b, reason: c, as: nothing}]\n```",
        "```yaml\nconsolidations: [{from: a, into: b, reason: c, force: true}]\n```",
        "```yaml\nprunings: {name: a}\n```",
        "```yaml\n- a\n```",
        "```yaml\nprunings: []\n```\n```yaml\nprunings: []\n```",
        "```yaml\nprunings: [}\n```",
        "```yaml\nprunings: !!python/object/apply:os.system [ls]\n```",
        f"```yaml\nprunings: [{{name: a, reason: {'x' * 1001}}}]\n```",
    ],
)
def test_an_answer_that_is_no_plan_changes_nothing(root: Path, tmp_path: Path, answer: str) -> None:
    with pytest.raises(BadPlan):
        parse_plan(answer)
    before = tree(root)
    report = apply(tmp_path, answer)
    assert "the model's plan was not followed" in report.plan_failure
    assert report.changes == ()
    after = tree(root)
    assert {path: data for path, data in after.items() if path != ".usage.json"} == {
        path: data for path, data in before.items() if path != ".usage.json"
    }


def test_skills_grow_old_but_protected_ones_and_those_of_jobs(root: Path, tmp_path: Path) -> None:
    old, now = {"created_at": "2020-01-01T00:00:00+00:00"}, ManualClock().now()
    stale = {"last_viewed_at": timestamp(now - timedelta(days=40))}
    records = dict.fromkeys(("mail-send", "git-log", "arxiv"), old) | {"mail-read": stale}
    put(root, ".usage.json", json.dumps(records))
    report = apply(tmp_path, "", jobs=frozenset({"git-log"}))
    assert [(done.kind.value, done.name) for done in report.changes] == [
        ("stale", "mail-read"),
        ("archived", "mail-send"),
    ]
    assert report.refusals == ()
    assert usage(root)["mail-read"]["state"] == "stale"


def test_without_knowing_what_is_of_a_hub_nothing_is_done(root: Path, tmp_path: Path) -> None:
    put(root, ".hub/lock.json", "{installed: ")
    before = tree(root)
    with pytest.raises(BadSkill, match="cannot be told from others"):
        apply(tmp_path, plan("shop-hub -> mail-read", "mail-send -> mail-read"))
    assert tree(root) == before


def test_a_dry_run_only_tells(root: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    order = Order("one", plan=plan("mail-send -> mail-read"), dry_run=True, epoch=1)
    report = run(curation(tmp_path).apply(order))
    assert report.dry_run
    assert report.summary == "skills: 1 merged"
    after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert {path: data for path, data in after.items() if not path.name.endswith(".lock")} == before


def test_a_run_is_made_once_and_reported(root: Path, tmp_path: Path) -> None:
    put(root, ".curator_state", json.dumps({"theirs": {"a": 1}, "run_count": 4}))
    first = apply(tmp_path, plan("mail-send -> mail-read"), run_id="one")
    after = tree(root)
    again = apply(tmp_path, plan("git-log -> mail-read"), run_id="one")
    assert again == first
    assert tree(root) == after
    kept = json.loads((root / ".curator_state").read_text())
    assert kept["theirs"] == {"a": 1}
    assert (kept["run_count"], kept["last_run_summary"]) == (5, "skills: 1 merged")
    report = (tmp_path / first.path).read_text()
    assert "`mail-send → mail-read`" in report
    assert f"hermes curator rollback {first.backup_id}" in report
    told = json.loads((tmp_path / first.path).with_name("run.json").read_text())
    assert told["changes"][0]["name"] == "mail-send"
    (listed,) = run(curation(tmp_path).reports(10))
    assert listed == first


def test_a_backup_gives_the_library_back_and_is_one_of_five(root: Path, tmp_path: Path) -> None:
    before = skills_of(root)
    made = apply(tmp_path, plan("git-log -> git-history", "git-rebase -> git-history"), run_id="a")
    changed = skills_of(root)
    back = run(curation(tmp_path).restore("b", made.backup_id))
    assert skills_of(root) == before
    assert not (root / "dev/git-history").exists()
    assert {done.name for done in back.changes} >= {"git-log", "git-rebase"}
    # What was there before that is not lost either.
    # Asked for again it finds nothing, as a roll-back is not what the next one goes back to.
    assert run(curation(tmp_path).restore("again", "")).changes == ()
    run(curation(tmp_path).restore("c", back.backup_id))
    assert skills_of(root) == changed
    with pytest.raises(NotFound):
        run(curation(tmp_path).restore("d", "20200101-000000"))
    for number in range(6):
        apply(tmp_path, plan("mail-send -> mail-read"), run_id=f"e{number}")
        run(curation(tmp_path).restore(f"f{number}", ""))
    assert len(run(curation(tmp_path).state())[1]) == 5


def test_what_is_moved_back_keeps_what_no_backup_holds(root: Path, tmp_path: Path) -> None:
    (root / "mail-send/scripts/send.py").chmod(0o755)
    deep = put(root, "mail-send/assets/deep/er/file", "deep")
    made = apply(tmp_path, plan("mail-send -> mail-read"), run_id="a")
    assert not deep.exists()
    run(curation(tmp_path).restore("b", made.backup_id))
    assert deep.read_text() == "deep"
    assert (root / "mail-send/scripts/send.py").stat().st_mode & 0o777 == 0o755


def test_a_pause_keeps_what_others_have_written(root: Path, tmp_path: Path) -> None:
    put(root, ".curator_state", json.dumps({"theirs": 1}))
    run(curation(tmp_path).update(is_paused=True, begins=True))
    kept = json.loads((root / ".curator_state").read_text())
    assert (kept["theirs"], kept["paused"]) == (1, True)
    began = kept["last_run_at"]
    run(curation(tmp_path).update(is_paused=None, begins=True))
    assert json.loads((root / ".curator_state").read_text())["last_run_at"] == began


NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
AGES = Ages()

moments = st.integers(-200 * 86_400, 3600).map(lambda s: timestamp(NOW + timedelta(seconds=s)))
uses = st.builds(
    Usage,
    state=st.sampled_from(SkillState),
    created_at=st.none() | moments,
    last_used_at=st.none() | moments,
)
ages = st.tuples(st.integers(1, 60), st.integers(0, 60)).map(
    lambda days: Ages(days[0] * DAY, (days[0] + days[1]) * DAY)
)


def only(usage: Usage, now: datetime = NOW, of: Ages = AGES) -> CurationResult | None:
    return transition("a", usage, now, of)


@given(uses, ages)
def test_each_state_follows_from_the_time_without_activity(usage: Usage, of: Ages) -> None:
    found = only(usage, of=of)
    if usage.state is SkillState.ARCHIVED:
        assert found is None
        return
    state = SkillState(found.kind.value) if found else usage.state
    since = usage.active_time or usage.created_time
    if since is None:
        assert found is None
        return
    idle = NOW - since
    was_used = usage.active_time is not None
    if idle >= of.archived and (was_used or idle >= 30 * DAY):
        assert state is SkillState.ARCHIVED
    elif idle >= of.stale:
        assert state is SkillState.STALE
    else:
        assert state is SkillState.ACTIVE


@given(uses, ages)
def test_what_was_done_once_is_not_to_be_done_again(usage: Usage, of: Ages) -> None:
    found = only(usage, of=of)
    if found is not None:
        state = SkillState(found.kind.value)
        assert state is not usage.state
        assert only(replace(usage, state=state), of=of) is None


@pytest.mark.parametrize(
    ("told", "epoch"),
    [(7, 7), (2**53 - 1, 2**53 - 1), (2**53, 0), (2**63 - 1, 0), (-1, 0), (7.0, 0), (True, 0)],
)
def test_an_epoch_that_no_run_has_had_is_none(told: object, epoch: int) -> None:
    assert lenient({"last_run_epoch": told}, CuratorState).last_run_epoch == epoch


@pytest.mark.parametrize("told", [2**63, 10**30, -1])
def test_a_count_that_the_wire_cannot_carry_is_none(told: int) -> None:
    assert lenient({"run_count": told}, CuratorState).run_count == 0
    assert lenient({"use_count": told, "view_count": 3}, Usage) == Usage(view_count=3)


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "x"])
def test_a_time_that_is_none_in_utc_is_none(text: str) -> None:
    assert CuratorState(last_run_at=text).last_run_time is None
