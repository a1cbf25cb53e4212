"""What `hermes jobs` makes of its options, and says of those that are wrong."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from google.protobuf.duration_pb2 import Duration

from hermes.scheduler.v1 import job_file_pb2, job_pb2, run_pb2
from services.cli.jobs.files import note_of
from services.cli.jobs.options import duration_text, given_fields, option_of, read_script
from services.cli.jobs.view import JOB_LIST, run_list, show
from services.cli.main import parser_of
from services.cli.output import print_rows
from services.errors import InvalidArgument

JOBS = parser_of("jobs")
JITTER = "options.jitter"


@pytest.mark.parametrize(
    ("option", "value", "field", "expected"),
    [
        ("--timeout", "1h30m", "timeout", Duration(seconds=5400)),
        ("--jitter", "90s", "jitter", Duration(seconds=90)),
        ("--grace", "0s", "missed_run_grace", Duration()),
        ("--backoff", "2d", "retry_backoff", Duration(seconds=172_800)),
        ("--budget-usd", "$1.5", "budget_micro_usd", 1_500_000),
        ("--runs", "3", "max_runs", 3),
        ("--missed", "skip", "missed_run_policy", "skip"),
        ("--overlap", "replace", "overlap_policy", "replace"),
        ("--skill", "arxiv", "skills", ["arxiv"]),
    ],
)
def test_an_option_is_its_field_alone(
    option: str, value: str, field: str, expected: object
) -> None:
    arguments = JOBS.parse_args(["edit", "x", option, value])
    assert given_fields(arguments) == {f"options.{field}": expected}


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("--timeout", "soon", "'soon' is not a duration such as 90d, 10m or 1h30m"),
        ("--jitter", "5", "'5' is not a duration such as"),
        ("--grace", "9999w", "is longer than 366 days"),
        ("--budget-usd", "much", "'much' is not an amount in dollars such as 2.50"),
        ("--budget-usd", "0", "is not an amount"),
        ("--retries", "11", "is not between 0 and 10"),
        ("--max-missed", "0", "is not between 1 and 100"),
        ("--runs", "0", "is not between 1 and 1000000"),
        ("--missed", "never", "choose from once, skip, all"),
        ("--clear", "prompt", "choose from name"),
    ],
)
def test_a_wrong_value_is_refused_with_what_is_right(
    option: str, value: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        JOBS.parse_args(["edit", "x", f"{option}={value}"])
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "told"),
    [(b"", "is empty"), (b"\xff", "is not UTF-8 text"), (b"x" * 70_000, "more than 65536 bytes")],
)
async def test_a_script_is_a_text_of_some_length(tmp_path: Path, content: bytes, told: str) -> None:
    script = tmp_path / "x.sh"
    await asyncio.to_thread(script.write_bytes, content)
    for path, said in ((script, told), (tmp_path / "gone.sh", "cannot be read")):
        with pytest.raises(InvalidArgument, match=said):
            await read_script(str(path))


@pytest.mark.parametrize(
    ("path", "option"),
    [
        ("sandbox_template", "sandbox"),
        ("options.deliver_to", "to"),
        ("options.missed_run_policy", "missed"),
        ("time_zone", "time-zone"),
        ("prompt", "prompt"),
    ],
)
def test_a_field_is_called_what_its_option_is_called(path: str, option: str) -> None:
    assert option_of(path) == option


@pytest.mark.parametrize("text", ["0s", "90s", "1h30m", "2d1s", "366d"])
def test_a_length_of_time_is_written_as_it_is_read(text: str) -> None:
    arguments = JOBS.parse_args(["edit", "x", "--jitter", text])
    shown = duration_text(vars(arguments)[JITTER])
    assert JOBS.parse_args(["edit", "x", "--jitter", shown]) == arguments


def test_a_run_that_is_put_off_says_until_when_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    soon, late = datetime.now(UTC) + timedelta(minutes=7), datetime.now(UTC) + timedelta(days=2)
    tokyo = ZoneInfo("Asia/Tokyo")
    again = run_pb2.Run(
        run_id="run_a", state=run_pb2.RUN_STATE_CLAIMED, attempt=4, error="no\nmore"
    )
    again.not_before_time.FromDatetime(soon)
    first = run_pb2.Run(run_id="run_b", state=run_pb2.RUN_STATE_CLAIMED, attempt=1)
    first.not_before_time.FromDatetime(late)
    works = run_pb2.Run(run_id="run_c", state=run_pb2.RUN_STATE_RUNNING, attempt=4)
    works.not_before_time.FromDatetime(soon)
    print_rows([again, first, works], run_list("Asia/Tokyo"))
    lines = capsys.readouterr().out.splitlines()[-3:]
    assert f"waits, attempt 4 at {soon.astimezone(tokyo):%Y-%m-%d %H:%M:%S} JST" in lines[0]
    assert lines[0].rstrip().endswith("no")
    assert f"waits, starts at {late.astimezone(tokyo):%Y-%m-%d %H:%M:%S} JST" in lines[1]
    assert "waits" not in lines[2]


def test_the_times_of_a_job_are_shown_in_its_zone(capsys: pytest.CaptureFixture[str]) -> None:
    job = job_pb2.Job(job_id="job_a", time_zone="Asia/Tokyo", schedule="every day at 9:00")
    job.next_run_time.FromDatetime(datetime(2026, 11, 28, tzinfo=UTC))
    job.last_run_time.FromDatetime(datetime(2026, 11, 27, tzinfo=UTC))
    show(job)
    print_rows([job], JOB_LIST)
    told = capsys.readouterr().out
    assert told.count("2026-11-28 09:00:00 JST") == 2
    assert "at 2026-11-27 09:00:00 JST" in told


def test_a_job_that_came_paused_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    why = "no chat of telegram is named"
    job = job_pb2.Job(job_id="a", state=job_pb2.JOB_STATE_PAUSED, time_zone="UTC", pause_reason=why)
    show(job)
    assert why in capsys.readouterr().out


def test_what_is_not_taken_of_a_file_is_named() -> None:
    taken, left = job_file_pb2.IMPORT_OUTCOME_TAKEN, job_file_pb2.IMPORT_OUTCOME_LEFT
    told = [
        note_of(job_file_pb2.ImportedJob(name=name, outcome=outcome, notes=["a", "b"]))
        for name, outcome in (("news", taken), ("news", left), ("the file", left))
    ]
    assert told == ["job news: a; b", "not imported: news: a; b", "not imported: the file: a; b"]
