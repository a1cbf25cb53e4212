"""Messages as records with fields of the same names, and back."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from msgspec import Struct

from hermes.scheduler.v1 import job_pb2
from services.rpc.messages import message_of, record_of


class Options(Struct, frozen=True):
    skills: tuple[str, ...] = ()
    script_mode: str = ""
    timeout: timedelta | None = None
    max_missed_runs: int = 10


class Record(Struct, frozen=True):
    name: str = "unnamed"
    options: Options = Options()
    create_time: datetime | None = None
    not_in_the_message: int = 1

    @property
    def prompt(self) -> str:
        return f"look at {self.name}"


def test_a_record_comes_back_from_its_message() -> None:
    options = Options(("a", "b"), "only", timedelta(minutes=1), 3)
    record = Record("news", options, datetime(2026, 1, 5, 12, tzinfo=UTC))
    message = message_of(record, job_pb2.Job, job_id="x")
    assert (message.options.script_mode, message.prompt) == (2, "look at news")
    assert record_of(message, Record) == record


def test_what_is_not_set_has_the_records_default() -> None:
    assert record_of(job_pb2.Job(prompt="not in the record"), Record) == Record()


def test_fields_are_named_by_paths() -> None:
    fields = {"prompt": "look", "options.skills": ["a"], "options.overlap_policy": "replace"}
    message = message_of(fields, job_pb2.Job)
    assert (message.prompt, list(message.options.skills)) == ("look", ["a"])
    assert message.options.overlap_policy == 3


def test_a_value_of_no_meaning_is_refused() -> None:
    class Strict(Struct):
        run_count: str

    with pytest.raises(msgspec.ValidationError):
        record_of(job_pb2.Job(run_count=3), Strict)
