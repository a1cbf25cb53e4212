"""The curator, as a person and a script steer it."""

from pathlib import Path

import pytest

from tests.e2e.home import Home
from tests.e2e.model import model_process
from tests.support.curation import PROTECTED, fill, plan, skill_files, skills_of

WISHES = plan(
    *("git-log -> git-history", "git-rebase -> git-history", "arxiv -> git-history"),
    prunings=("pinned-notes",),
)


@pytest.mark.timeout(180)
def test_it_is_run_looked_at_undone_and_paused(tmp_path: Path) -> None:
    with model_process(tmp_path, [{"steps": [{"text": WISHES}]}]) as model:
        home = Home.make(
            tmp_path, {"model": {"base_url": model.url, "default": "scripted"}}, HERMES_API_KEY="k"
        )
        root = fill(home.path)
        before = skills_of(root)
        kept = {name: skill_files(root, name) for name in PROTECTED}
        fresh = home.run("curator", "status").out
        assert "The curator is on." in fresh
        assert "never\n" in fresh
        assert "has not run yet" in home.run("curator", "reports").out
        nothing = home.run("curator", "rollback", "--yes")
        assert (nothing.status, nothing.out) == (1, "")
        assert nothing.complaints == [
            "hermes: there is no backup, because the curator has changed nothing yet"
        ]
        dry = home.run("curator", "dry-run")
        assert "Would be: skills: 2 merged, 1 created" in dry.out
        assert skills_of(root) == before
        run = home.run("curator", "run", "--json").json
        assert [change["kind"] for change in run["changes"]] == ["created", "merged", "merged"]
        assert {change["name"]: change["reason"] for change in run["refusals"]} == {
            "arxiv": "it came with Hermes",
            "pinned-notes": "the user has pinned it",
        }
        assert {name: skill_files(root, name) for name in PROTECTED} == kept
        status = home.run("curator", "status", "--json").json
        assert (status["run_count"], status["backup_ids"]) == (1, [run["backup_id"]])
        assert (status["latest_run"]["error"], status["latest_run"]["report"]) == ("", run)
        assert run["backup_id"] in home.run("curator", "reports").out
        unasked = home.run("curator", "rollback")
        assert (unasked.status, unasked.out) == (2, "")
        assert "--yes" in unasked.err
        missing = home.run("curator", "rollback", "20200101-000000", "--yes")
        assert missing.complaints == ["hermes: there is no backup 20200101-000000"]
        assert "restored" in home.run("curator", "rollback", "--yes").out
        assert skills_of(root) == before
        assert "The curator is paused." in home.run("curator", "pause").out
        assert home.run("curator", "resume", "--json").json["is_paused"] is False
