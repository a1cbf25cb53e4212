"""Jobs that a conversation makes: their limits, what is said of them, and their skill."""

import ast
import re
from datetime import UTC, datetime
from typing import Any, get_args

import pytest
from msgspec.structs import replace

from agent_service.config.toolsets import NOTHING
from agent_service.records.jobs import JobChange, JobView
from agent_service.tools.base import RetryWithHint
from agent_service.tools.cronjob.cronjob import CronjobArguments, limited
from agent_service.tools.cronjob.text import listed
from scheduler_service.runs.prompts import is_silent
from scheduler_service.schedule.schedule import parse
from tests.support.bundled import ROOT

HAS = frozenset({"cron", "web"})


def test_a_job_without_any_toolset_can_be_changed_by_who_made_it() -> None:
    changed = limited(JobChange(prompt="look"), HAS, before=JobChange(toolsets=NOTHING))
    assert changed.toolsets == NOTHING


@pytest.mark.parametrize(
    "wish",
    [JobChange(toolsets=("web", "file")), JobChange(script="true"), JobChange(skills=("tea",))],
)
def test_more_than_the_conversation_has_is_refused(wish: JobChange) -> None:
    with pytest.raises(RetryWithHint, match="cannot give a job"):
        limited(wish, HAS)


def test_a_job_that_names_none_gets_what_the_conversation_has_of_those_for_jobs() -> None:
    assert limited(JobChange(), HAS).toolsets == ("web",)
    assert limited(JobChange(), frozenset()).toolsets is None


JOB = JobView(
    id="job_a",
    name="news",
    schedule="every 2h",
    time_zone="UTC",
    state="paused",
    deliver_to=("slack",),
    wish=JobChange(),
    changed_at=datetime(2026, 1, 1, tzinfo=UTC),
    pause_reason="no chat of slack is named",
)


def test_a_paused_job_says_why_where_nobody_has_paused_it() -> None:
    assert listed([JOB]) == (
        "job_a “news”: every 2h. Paused: no chat of slack is named.\n  to: slack"
    )
    by_somebody = replace(JOB, pause_reason="")
    assert listed([by_somebody]) == "job_a “news”: every 2h. Paused.\n  to: slack"


TEXT = (ROOT / "hermes" / "scheduling-jobs" / "SKILL.md").read_text()
NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
KINDS = {
    "once, in a while": "once",
    "once, at a time": "once",
    "at an interval": "interval",
    "in words": "cron",
    "cron: minute hour day month weekday": "cron",
}


def quoted(text: str) -> list[str]:
    return re.findall(r"`([^`\n]+)`", text)


def section(title: str) -> str:
    return TEXT.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def arguments(call: str) -> dict[str, Any]:
    parsed = ast.parse(call, mode="eval").body
    assert isinstance(parsed, ast.Call)
    assert not parsed.args
    return {str(each.arg): ast.literal_eval(each.value) for each in parsed.keywords}


CALLS = [arguments(each) for each in quoted(TEXT) if each.startswith("cronjob(")]
ROWS: dict[str, str] = dict(
    re.findall(r"^\| (.+?) \| (`.+`) \|$", section("The schedule"), re.MULTILINE)
)


def test_all_rows_of_schedules_are_looked_at() -> None:
    assert ROWS.keys() == KINDS.keys()


@pytest.mark.parametrize("row", KINDS)
def test_its_schedules_are_understood_as_it_says(row: str) -> None:
    for text in quoted(ROWS[row]):
        assert parse(text, "Europe/Berlin", NOW).kind == KINDS[row], text


def test_its_calls_are_what_the_tool_takes() -> None:
    assert CALLS
    for call in CALLS:
        taken = CronjobArguments.model_validate(call)
        assert taken.action == "create"
        parse(taken.schedule or "", "Europe/Berlin", NOW)


def test_whatever_it_names_the_tool_has() -> None:
    actions = get_args(CronjobArguments.model_fields["action"].annotation)
    known = {*CronjobArguments.model_fields, *actions}
    told = "".join(map(section, ("The prompt", "The call", "When it does not run")))
    names = [each for each in quoted(told) if not each.startswith("cronjob(")]
    assert len(names) > 10
    for name, _, value in (each.partition("=") for each in names):
        assert name in known, name
        if value:
            CronjobArguments.model_validate({"action": "create", name: ast.literal_eval(value)})


def test_what_it_lets_a_run_answer_is_silent() -> None:
    (answer,) = re.findall(r"answer with exactly (\S+)\.$", TEXT, re.MULTILINE)
    assert is_silent(answer)
