"""A home made by hand: it is taken, works in a conversation, and comes out byte for byte."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.e2e.home import Home, check_complaint
from tests.fakes.model import fake_model
from tests.integration.agent_parts import agent, answer
from tests.support.homes import JOBS, SAMPLE, SECRETS, copy, tree

VIEW = {"tool_calls": [{"name": "skill_view", "arguments": {"name": "arxiv"}}]}
SCRIPT = {"rules": [{"steps": [VIEW, {"text": "{tool_result}"}]}]}
UNKNOWN = "my_own_plugin"
"""A key of the sample's config.yaml, which is remarked on."""
BUNDLED = {"HERMES_SKILLS_BUNDLED": "true"}
USAGE = "skills/.usage.json"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """An empty home, into which the skills that come with Hermes are copied as usual."""
    return Home.make(tmp_path).set(**BUNDLED)


def test_a_home_comes_out_as_it_came_in(home: Home, tmp_path: Path) -> None:
    planned = home.run("home", "import", SAMPLE, "--dry-run", "--json").json
    assert planned["dry_run"]
    assert not (home.path / "SOUL.md").exists()
    assert home.run("jobs", "list", "--json").json == []
    taken = home.run("home", "import", SAMPLE, "--json").json
    given = tree(SAMPLE)
    assert taken["files"] == {"added": len(given), "replaced": 0, "kept": 0, "unchanged": 0}
    assert taken["files"] == planned["files"]
    assert taken["left_out"] == []
    assert taken["memory_providers"] == ["elephant"]
    for with_secrets, left in ((False, SECRETS), (True, set[str]())):
        folder = tmp_path / f"out{with_secrets}"
        options = ["--with-secrets"] if with_secrets else []
        told = home.run("home", "export", folder, "--json", *options).json
        assert {f"{_prefix(one)}{one['path']}" for one in told["left_out"]} == left
        assert tree(folder) == {path: held for path, held in given.items() if path not in left}
        assert told["files"] == len(given) - len(left)
        assert told["profiles"] == ["default", "ann"]
    for path in SECRETS:
        assert (home.path / path).stat().st_mode & 0o777 == 0o600
    ann = tmp_path / "ann"
    assert home.run("home", "export", ann, "--from", "ann", "--with-secrets").status == 0
    assert tree(ann) == tree(SAMPLE / "profiles" / "ann")


async def test_a_home_that_was_taken_works(home: Home, tmp_path: Path) -> None:
    taken = (await asyncio.to_thread(home.run, "home", "import", SAMPLE, "--json")).json
    assert taken["sessions"] == 1
    async with fake_model(SCRIPT) as model, agent(home.path, model.url, **BUNDLED) as client:
        said = answer(await client.ask("find me a paper"))
        turn = await client.start("hi", session_id="hers", profile="ann")
        await client.watch(turn.turn_id, profile="ann")
        prompts = [body["messages"][0]["content"] for body in model.bodies]
    assert "1. Search the listing first." in said
    prompt = prompts[0]
    assert prompt.startswith("You are Livia, dry and exact.")
    for part in (
        "The build needs make 4 — not 3.\n§\nSection marks stay: § 5 BGB and\n §\nare no borders.",
        "Server «otter»: 🦦, port 8443\n\twith a tab",
        "Lives in Roma, città eterna.\n§\nLikes short answers.",
        "research: Finding things out\n- arxiv: Find papers; summarise them.",
        "- plain: Just text, without frontmatter.",
        "- log-analysis: Find out from log files",
    ):
        assert part in prompt
    assert "old-way" not in prompt
    assert prompts[-1].startswith("You are Ann and no other.")
    assert "Ann speaks Nynorsk: «ikkje»." in prompts[-1]
    assert "- sail: How to trim sails." in prompts[-1]
    assert "Livia" not in prompts[-1]
    found = await asyncio.to_thread(home.run, "sessions", "search", "otter", "--json")
    assert "20260201_101500_ab12cd" in found.out
    out = tmp_path / "out"
    exported = await asyncio.to_thread(home.run, "home", "export", out, "--with-secrets")
    assert exported.status == 0, exported.err
    before, after = [await asyncio.to_thread(tree, root) for root in (SAMPLE, out)]
    # That the skill was read is counted; nothing else has changed.
    assert before.keys() == after.keys()
    assert {path for path, held in before.items() if after[path] != held} == {USAGE}
    _check_counted(before[USAGE][0], after[USAGE][0])


def _check_counted(before: bytes, after: bytes) -> None:
    old, new = json.loads(before), json.loads(after)
    assert new["arxiv"].pop("view_count") == old["arxiv"].pop("view_count") + 1
    assert new["arxiv"].pop("last_viewed_at") != old["arxiv"].pop("last_viewed_at")
    assert new == old


async def test_a_home_moves_into_a_database_and_out(
    home: Home, tmp_path: Path, postgres_url: str
) -> None:
    stored = {"HERMES_DATABASE_URL": postgres_url, "HERMES_PROFILES_STORE": "database"}
    database = {**stored, **BUNDLED}
    one = home.set(**database)
    taken = (await asyncio.to_thread(one.run, "home", "import", SAMPLE, "--json")).json
    assert {f"{_prefix(left)}{left['path']}" for left in taken["left_out"]} == SECRETS
    assert (taken["sessions"], taken["jobs"]) == (1, JOBS)
    given = await asyncio.to_thread(tree, SAMPLE)
    told = await asyncio.to_thread(one.run, "home", "export", tmp_path / "out", "--json")
    out = await asyncio.to_thread(tree, tmp_path / "out")
    assert out == {path: held for path, held in given.items() if path not in SECRETS}
    assert told.json["profiles"] == ["default", "ann"]
    # Another replica, whose home on the disk is empty.
    async with fake_model(SCRIPT) as model, agent(tmp_path / "b", model.url, **database) as client:
        assert "1. Search the listing first." in answer(await client.ask("find me a paper"))
        (prompt, *_) = [body["messages"][0]["content"] for body in model.bodies]
    assert prompt.startswith("You are Livia, dry and exact.")
    assert "Lives in Roma, città eterna.\n§\nLikes short answers." in prompt
    assert "research: Finding things out\n- arxiv: Find papers; summarise them." in prompt
    refused = await asyncio.to_thread(one.run, "home", "import", SAMPLE, "--no-jobs")
    check_complaint(refused, "1 file is there already", USAGE)


def test_jobs_that_can_run_do_and_the_others_are_named(home: Home, tmp_path: Path) -> None:
    taken = home.run("home", "import", SAMPLE, "--json").json
    assert taken["jobs"] == JOBS
    reasons = {one["name"]: one["reason"] for one in taken["jobs_not_run"]}
    assert "its script backup.sh is not in the folder scripts" in reasons["backup"]
    assert "its time has passed" in reasons["tea"]
    notes = {one["name"]: one["notes"] for one in taken["job_notes"]}
    assert notes == {"weekly": ["what is not known is left out: mine"]}
    listed = home.run("jobs", "list", "--json").json
    assert sorted(job["job_id"] for job in listed) == JOBS
    (holiday,) = [job for job in listed if job["job_id"] == JOBS[2]]
    assert holiday["state"] == "paused"
    (weekly,) = [job for job in listed if job["job_id"] == JOBS[1]]
    assert weekly["schedule"] == "0 18 * * fri"
    assert weekly["time_zone"] == "Europe/Rome", "as its config.yaml says"
    assert home.run("home", "import", SAMPLE, "--json").json["jobs"] == JOBS, "each once"
    assert len(home.run("jobs", "list", "--json").json) == len(JOBS)


def test_nothing_is_overwritten_that_was_not_to_be(home: Home, tmp_path: Path) -> None:
    source = copy(tmp_path / "source")
    assert home.run("home", "import", source, "--no-jobs").status == 0
    (source / "SOUL.md").write_text("You are another.")
    (source / "memories" / "USER.md").write_text("Lives elsewhere.")
    (source / "new.txt").write_text("new")
    refused = home.run("home", "import", source, "--no-jobs")
    named = "2 files are there already with other content: SOUL.md (default), memories/USER.md"
    check_complaint(refused, UNKNOWN, named, "use --keep or --overwrite", lines=4)
    assert not (home.path / "new.txt").exists(), "all or nothing"
    kept = home.run("home", "import", source, "--no-jobs", "--keep", "--json").json["files"]
    assert (kept["added"], kept["kept"], kept["replaced"]) == (1, 2, 0)
    assert (home.path / "SOUL.md").read_bytes() == (SAMPLE / "SOUL.md").read_bytes()
    made = home.run("home", "import", source, "--no-jobs", "--overwrite", "--json").json["files"]
    assert (made["added"], made["kept"], made["replaced"]) == (0, 0, 2)
    assert (home.path / "SOUL.md").read_text() == "You are another."
    change = home.run("memory", "history", "--json").json[0]
    assert change["after"] == "Lives elsewhere."
    undone = home.run("memory", "undo", change["change_id"], "--json").json
    assert undone["user"]["entries"] == ["Lives in Roma, città eterna.", "Likes short answers."]


def test_a_home_becomes_a_profile_of_another(home: Home, tmp_path: Path) -> None:
    told = home.run("home", "import", SAMPLE / "profiles" / "ann", "--into", "bob", "--json").json
    assert told["files"]["added"] == len(tree(SAMPLE / "profiles" / "ann"))
    here = tree(home.path / "profiles" / "bob")
    assert tree(SAMPLE / "profiles" / "ann").items() <= here.items()
    shown = home.run("memory", "show", "--profile", "bob", "--json").json
    assert "Nynorsk" in shown["user"]["entries"][0]


def test_what_is_no_home_is_not_taken(tmp_path: Path) -> None:
    home = Home.make(tmp_path, {"model": {"default": "m"}})
    (tmp_path / "pictures").mkdir()
    wrong = home.run("home", "import", tmp_path / "pictures")
    check_complaint(wrong, "is not a home")
    check_complaint(home.run("home", "import", home.path), "is the home in use")
    source = copy(tmp_path / "source")
    (home.path / "SOUL.md").mkdir()
    taken = home.run("home", "import", source, "--overwrite", "--no-jobs")
    check_complaint(taken, "SOUL.md (default) has no place")
    assert not (home.path / "memories").joinpath("USER.md").exists()


def _prefix(left_out: dict[str, str]) -> str:
    profile = left_out["profile"]
    return "" if profile == "default" else f"profiles/{profile}/"
