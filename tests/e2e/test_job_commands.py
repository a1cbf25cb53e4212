"""Scheduled jobs, as a person and a script steer them."""

import sqlite3
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from tests.e2e.backends import sandboxed
from tests.e2e.deployment import one_process, running
from tests.e2e.home import Home, check_complaint
from tests.e2e.model import ModelProcess
from tests.e2e.processes import wait_until

ALL_OPTIONS = (
    *(
        "--name",
        "all of it",
        "--time-zone",
        "Asia/Tokyo",
        "--to",
        "telegram:42:7",
        "--to",
        "origin",
    ),
    *("--model", "small", "--skill", "arxiv", "--skill", "mail", "--toolset", "web"),
    *("--workdir", "/srv", "--runs", "5", "--missed", "all", "--max-missed", "3"),
    *("--overlap", "allow", "--jitter", "90s", "--timeout", "1h30m", "--retries", "2"),
    *("--backoff", "1m", "--grace", "2h", "--budget-usd", "1.50", "--budget-tokens", "1000"),
    *("--unattended", "halt", "--paused"),
)

LATER = "while hermes is running; start it with: hermes up"


@pytest.fixture(scope="module")
def client(model: ModelProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """Commands beside a running `hermes up`."""
    folder = tmp_path_factory.mktemp("up")
    config = {**sandboxed("bubblewrap"), "timezone": "Europe/Berlin"}
    with running(one_process(folder, model.url, config)) as started:
        yield started.client


@pytest.fixture
def alone(tmp_path: Path) -> Home:
    """A home in which nothing runs."""
    return Home.make(tmp_path)


def test_a_job_is_added_shown_changed_and_removed(client: Home, tmp_path: Path) -> None:
    script = tmp_path / "check.sh"
    script.write_text("df -h /\n")
    added = client.run("jobs", "add", "every weekday at 9:00", "look", "--name", "mail")
    assert added.status == 0, added.err
    first, zone, *times = added.out.splitlines()
    assert first.endswith("  mail")
    assert zone == "next runs (Europe/Berlin):"
    assert len(times) == 3
    berlin = ZoneInfo("Europe/Berlin")
    for line in times:
        at = datetime.strptime(line.strip()[4:23], "%Y-%m-%d %H:%M:%S").replace(tzinfo=berlin)
        assert (at.hour, at.minute) == (9, 0)
        assert at.weekday() < 5
    job_id = first.split()[0]
    keyed = tmp_path / "keyed.sh"
    keyed.write_text("look --token ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8\n")
    warned = client.run("jobs", "add", "in 9 hours", "--script", keyed, "--no-agent", "--name", "k")
    assert f"{warned.out.split()[0]}: 1 secret was taken out of its script" in warned.err
    assert client.run("jobs", "remove", "k").status == 0
    given = ("0 9 * * *", "look", "--script", script, "--context-from", "mail", *ALL_OPTIONS)
    told = client.run("jobs", "add", *given, "--json").json
    expected = {
        "state": "paused", "kind": "cron", "time_zone": "Asia/Tokyo", "unattended": "halt",
    }  # fmt: skip
    options = {
        "deliver_to": ["telegram:42:7", "origin"], "model": "small",
        "skills": ["arxiv", "mail"], "toolsets": ["web"], "workdir": "/srv", "max_runs": 5,
        "missed_run_policy": "all", "max_missed_runs": 3, "overlap_policy": "allow", "jitter": 90,
        "timeout": 5400, "max_retries": 2, "retry_backoff": 60, "missed_run_grace": 7200,
        "budget_micro_usd": 1_500_000, "budget_tokens": 1000, "script": "df -h /\n",
        "script_mode": None, "context_job_ids": [job_id],
    }  # fmt: skip
    assert {name: told[name] for name in expected} == expected
    assert (told["options"], told["due"]) == (options, [])
    shown = client.run("jobs", "show", "all of it").out
    for part in ("paused", "telegram:42:7", "2, the first after 1m", "$1.50", "df -h /", "1h30m"):
        assert part in shown
    changed = client.run(
        *("jobs", "edit", "all of it", "--schedule", "every 90m", "--clear", "retries"),
        *("--clear", "backoff", "--clear", "script", "--clear", "budget-usd"),
        *("--clear", "budget-tokens", "--to", "local", "--json"),
    ).json
    expected |= {"kind": "interval"}
    options |= {
        "max_retries": 0, "retry_backoff": 30, "script": "",
        "deliver_to": ["local"], "budget_micro_usd": 0, "budget_tokens": 0,
    }  # fmt: skip
    assert {name: changed[name] for name in expected} == expected, "the rest is as it was"
    assert changed["options"] == options, "the rest is as it was"
    assert client.run("jobs", "remove", told["job_id"][:-4]).out.endswith(": removed\n")
    assert client.run("jobs", "remove", job_id).status == 0
    assert client.run("jobs", "list", "--json").json == []


def test_a_schedule_is_tried_without_a_job(client: Home) -> None:
    told = client.run("jobs", "add", "every 90m", "--dry-run", "--json").json
    first, second, third = map(datetime.fromisoformat, told["due"])
    assert (second - first).total_seconds() == (third - second).total_seconds() == 5400
    assert (told["kind"], told["time_zone"]) == ("interval", "Europe/Berlin")
    wrong = client.run("jobs", "add", "every blue moon", "--dry-run")
    check_complaint(wrong, '"blue moon"', "examples: ")


def test_what_is_meant_is_found_or_asked_for(client: Home) -> None:
    ids = [
        client.run("jobs", "add", "every 2h", "look", "--name", name, "--json").json["job_id"]
        for name in ("twin", "twin", "other")
    ]
    check_complaint(client.run("jobs", "show", "twin"), ids[0], ids[1], "give more of the id")
    check_complaint(client.run("jobs", "show", "job_"), "give more of the id")
    check_complaint(client.run("jobs", "show", "nobody"), "no job 'nobody'", "hermes jobs list")
    assert client.run("jobs", "show", "OTHER", "--json").json["job_id"] == ids[2]
    assert client.run("jobs", "show", ids[1], "--json").json["job_id"] == ids[1]
    paused = client.run("jobs", "pause", "--all", "--json").json
    assert {job["state"] for job in paused} == {"paused"}
    assert sorted(job["job_id"] for job in paused) == sorted(ids)
    assert "1 job" not in client.run("jobs", "pause", "--all").out, "they were paused already"
    assert client.run("jobs", "resume", "other").status == 0
    assert client.run("jobs", "resume", "--all").out.endswith("2 jobs resumed\n")


def test_a_job_for_a_platform_that_is_off_is_added_with_a_warning(alone: Home) -> None:
    added = alone.run("jobs", "add", "every 2h", "look", "--to", "telegram:42")
    assert added.status == 0
    off = "cannot deliver to telegram:42: telegram is off; set TELEGRAM_BOT_TOKEN to use it"
    assert off in added.err


def test_a_job_is_changed_where_nothing_runs(alone: Home) -> None:
    added = alone.run("jobs", "add", "every 2h", "look", "--name", "mail", "--budget-usd", "2")
    assert added.complaints == [
        "hermes: jobs run only while hermes is running; start it with: hermes up"
    ]
    check_complaint(alone.run("jobs", "edit", "mail"), "give a change")
    changed = alone.run("jobs", "edit", "mail", "--clear", "budget-usd", "--json").json
    assert changed["options"]["budget_micro_usd"] == 0
    waits = alone.run("jobs", "run", "mail", "--no-wait")
    assert waits.complaints == [f"hermes: jobs run only {LATER}"]
    assert alone.run("jobs", "runs", "mail", "--json").json[0]["state"] == "claimed"


def test_a_profile_has_its_jobs_where_they_run(client: Home) -> None:
    hers = client.path / "profiles" / "ann"
    hers.mkdir(parents=True)
    add = ("jobs", "add", "every 2h", "look", "--name", "hers", "--profile", "ann")
    added = client.run(*add)
    assert (added.status, added.complaints) == (0, []), "it runs already"
    assert not (hers / "state").exists(), "no database of its own"
    paused = client.set(HERMES_PROFILE="ann").run("jobs", "pause", "hers", "--json").json
    assert [each["state"] for each in paused] == ["paused"]
    with sqlite3.connect(client.path / "state" / "scheduler.db") as database:
        query = "SELECT paused_at IS NULL FROM job WHERE profile = 'ann'"
        rows = database.execute(query).fetchall()
    database.close()
    assert rows == [(0,)]
    assert client.run("curator", "status", "--profile", "ann").status == 0
    assert not (hers / "state").exists(), "who runs looks after its skills as well"


def test_a_run_is_waited_for_and_looked_at_later(client: Home) -> None:
    add = ("jobs", "add", "every 2h", "say that it is time", "--to", "local", "--json")
    job_id = client.run(*add, "--name", "timely").json["job_id"]
    run = client.run("jobs", "run", "timely")
    assert (run.status, run.complaints) == (0, [])
    assert "You said: say that it is time" in run.out
    begun = client.run("jobs", "run", "timely", "--no-wait", "--json").json
    assert (begun["job_id"], begun["is_requested"]) == (job_id, True)

    def ended() -> bool:
        return client.run("jobs", "runs", job_id, "--json").json[0]["finish_time"] is not None

    wait_until(ended, "the run has ended")
    latest, first = client.run("jobs", "runs", "timely", "--json").json
    assert (latest["run_id"], latest["state"], first["state"]) == (
        begun["run_id"],
        "succeeded",
        "succeeded",
    )
    assert latest["start_time"] < latest["finish_time"]
    whole = client.run("jobs", "runs", job_id, begun["run_id"][:-4], "--json").json
    assert "You said: say that it is time" in whole["output"]
    assert "You said: say that it is time" in client.run("jobs", "runs", "timely", "latest").out
    check_complaint(client.run("jobs", "runs", "timely", "run_x"), "no run 'run_x'")
    assert client.run("jobs", "show", job_id, "--json").json["last_run_state"] == "succeeded"


def test_a_run_that_failed_ends_with_one(client: Home) -> None:
    add = ("jobs", "add", "every 2h", "refuse my key", "--to", "local", "--name", "broken")
    assert client.run(*add).status == 0
    run = client.run("jobs", "run", "broken")
    assert (run.status, run.out) == (1, "")
    assert run.err.startswith("hermes: the run failed: ")
