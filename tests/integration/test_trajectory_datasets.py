"""Data sets of trajectories: what they have, what is left out, and what ends their making."""

import json
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from multiprocessing import active_children
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any, cast

import msgspec
import pyarrow.parquet as pq
import pytest
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam
from pydantic import TypeAdapter

from services.cli.main import parser_of
from services.cli.trajectories.command import COMMAND
from services.errors import InvalidArgument, Unavailable
from services.home.trajectories.compressor import Compressor
from services.home.trajectories.converter import Conversion
from services.home.trajectories.dataset import DatasetWriter
from services.home.trajectories.formats import Format, parse_trajectory
from services.home.trajectories.openai_messages import openai_record, parse_openai
from services.home.trajectories.selection import FILTERS, fingerprint
from services.home.trajectories.sharegpt import parse_sharegpt, sharegpt_record
from services.home.trajectories.tokenizer import load_counter
from services.home.trajectories.trajectory import Facts, Message, Trajectory
from tests.support.disks import small_disk
from tests.support.trajectories import corpus
from tests.unit.services.test_trajectories import TOKENIZER, a_call, a_run, check_pairs

PLAIN = Conversion()
SECRET = "AKIA" + "ABCDEFGH23456789"


def write_dataset(
    folder: Path,
    trajectories: Iterable[Trajectory],
    conversion: Conversion = PLAIN,
    *,
    parquet: bool = False,
) -> Mapping[str, int]:
    """Write a data set; returns the writer's counts."""
    with DatasetWriter(folder, conversion, parquet=parquet) as writer:
        writer.add_all(trajectories)
    return writer.counts


def test_filters_leave_out_what_is_not_worth_training_with() -> None:
    good = a_run(Message("user", "q"), Message("assistant", "I can't be wrong: 4.", "Hm."))
    refused = a_run(
        Message("user", "q"),
        Message("assistant", "I\u2019m sorry, but I can\u2019t help with that."),
    )
    cut = a_run(Message("user", "q"), Message("assistant", "", calls=[a_call(1)]))
    tried = a_run(
        Message("user", "q"),
        Message("assistant", "", "Hm.", [a_call(1)]),
        Message("tool", "no such file", call_id="c1"),
        Message("assistant", "I cannot find the file.", "Hm."),
    )
    found = {
        name: [leaves_out(it) for it in (good, refused, cut, tried)]
        for name, leaves_out in FILTERS.items()
    }
    assert found == {
        "no-reasoning": [False, True, True, False],
        "refused": [True, True, False, False],
        "cut": [False, False, True, False],
    }


def test_a_conversation_is_known_again() -> None:
    first = a_run(Message("user", "a b"), Message("assistant", "Yes", calls=[a_call(1)]))
    again = a_run(Message("user", "A\n b"), Message("assistant", "yes", calls=[a_call(2)]))
    other = a_run(Message("user", "a c"), Message("assistant", "yes", calls=[a_call(2)]))
    assert fingerprint(first) == fingerprint(again) != fingerprint(other)


def _lines(path: Path) -> list[Mapping[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("form", ["sharegpt", "openai"])
def test_a_data_set_has_its_splits_and_a_card(tmp_path: Path, form: Format) -> None:
    done = a_run(Message("user", SECRET), Message("assistant", "a"), facts=Facts(id="1"))
    failed = msgspec.structs.replace(done, completed=False, messages=[Message("user", "x")])
    for parquet in (False, True):
        conversion = Conversion(form, deduplicates=True)
        counts = write_dataset(tmp_path, [done, done, failed], conversion, parquet=parquet)
        assert counts == {"train": 1, "failed": 1, "duplicate": 1}
    [train] = _lines(tmp_path / "data" / "train.jsonl")
    assert SECRET not in str(train)
    table = cast("Any", pq).read_table(tmp_path / "data" / "train-00000-of-00001.parquet")
    [row] = cast("list[dict[str, Any]]", table.to_pylist())
    key, text = {"sharegpt": ("conversations", "value"), "openai": ("messages", "content")}[form]
    assert [it[text] for it in row[key]] == [it[text] for it in train[key]]
    assert (row["id"], row["completed"], row["score"]) == ("1", True, None)
    card = (tmp_path / "README.md").read_text()
    assert "split: failed\n    path: data/failed-00000-of-00001.parquet" in card
    assert "| duplicate | 1 |" in card


MESSAGES: TypeAdapter[Any] = TypeAdapter(list[ChatCompletionMessageParam])
TOOL: TypeAdapter[Any] = TypeAdapter(ChatCompletionToolParam)


def test_each_record_is_valid_and_is_read_back(tmp_path: Path) -> None:
    runs = list(corpus(600))
    fitted = list(Compressor(load_counter(TOKENIZER), 900).fit_all(runs))
    conversion = Conversion("openai", tokenizer=TOKENIZER, max_tokens=900)
    assert write_dataset(tmp_path, runs, conversion) == {"train": 600}
    lines = (tmp_path / "data" / "train.jsonl").read_bytes().splitlines()
    for line, expected in zip(lines, fitted, strict=True):
        record = json.loads(line)
        MESSAGES.validate_python(record["messages"])
        for tool in record["tools"]:
            TOOL.validate_python(tool)
        assert expected is not None
        again = parse_openai(line)
        assert openai_record(again) == openai_record(expected) == record
        shared = parse_sharegpt(msgspec.json.encode(sharegpt_record(expected)))
        assert openai_record(shared) == record


def test_a_failure_leaves_the_old_data_set(tmp_path: Path) -> None:
    write_dataset(tmp_path, [a_run(Message("user", "q"))])
    before = _lines(tmp_path / "data" / "train.jsonl")

    def broken() -> Iterator[Trajectory]:
        yield from corpus(400)
        raise InvalidArgument("line 2")

    with pytest.raises(InvalidArgument):
        write_dataset(tmp_path, broken())
    assert _lines(tmp_path / "data" / "train.jsonl") == before
    assert {path.name for path in (tmp_path / "data").iterdir()} == {"train.jsonl"}


def test_a_killed_process_is_named(tmp_path: Path) -> None:
    def killing() -> Iterator[Trajectory]:
        yield from corpus(400)
        active_children()[0].kill()
        yield from corpus(400)

    with pytest.raises(Unavailable, match="a process that converts was killed"):
        write_dataset(tmp_path, killing())
    assert list((tmp_path / "data").iterdir()) == []


def test_processes_end_where_sigterm_is_ignored(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        assert write_dataset(tmp_path, corpus(400)) == {"train": 400}
    finally:
        signal.signal(signal.SIGTERM, before)
    assert not active_children()


@pytest.mark.parametrize("count", [1, 400])
@pytest.mark.parametrize("text", ["{}", "model"])
def test_a_broken_tokenizer_is_refused(tmp_path: Path, text: str, count: int) -> None:
    (tmp_path / "tokenizer.json").write_text(text)
    conversion = Conversion(tokenizer=str(tmp_path), max_tokens=900)
    with pytest.raises(InvalidArgument, match="is no tokenizer of Hugging Face's format"):
        write_dataset(tmp_path / "set", corpus(count), conversion)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_leaves_no_process(tmp_path: Path, number: signal.Signals) -> None:
    source, hermes = tmp_path / "runs.jsonl", Path(sys.executable).with_name("hermes")
    with source.open("w") as file:
        file.writelines(f"{json.dumps(sharegpt_record(each))}\n" for each in corpus(3000))
    command = (hermes, "trajectories", "convert", source, "--out", tmp_path / "set")
    command += ("--max-tokens", "900", "--tokenizer", TOKENIZER)
    with Popen(command, start_new_session=True, stderr=PIPE, text=True) as running:
        part = tmp_path / "set" / "data" / "train.jsonl.part"
        while not part.exists() or part.stat().st_size < 1_000_000:  # more than the first chunk
            assert running.poll() is None
            time.sleep(0.01)
        assert len(_session(running.pid)) > 2
        running.send_signal(number)
        _, complaint = running.communicate(timeout=20)
        while _session(running.pid):
            time.sleep(0.01)
    assert "Traceback" not in complaint
    assert not part.with_suffix("").exists()


def _session(leader: int) -> Sequence[int]:
    """The processes of a session that have not ended."""
    found: list[int] = []
    for each in Path("/proc").glob("[0-9]*/stat"):
        with suppress(ProcessLookupError, FileNotFoundError):
            state, _, _, session, *_ = each.read_text().rpartition(") ")[2].split()
            if int(session) == leader and state != "Z":
                found.append(int(each.parent.name))
    return found


@pytest.mark.parametrize("parquet", [False, True])
def test_a_full_disk_leaves_no_part_of_a_data_set(tmp_path: Path, *, parquet: bool) -> None:
    with small_disk(tmp_path / "disk", 1) as folder:
        with pytest.raises(OSError, match="No space left"):
            write_dataset(folder, corpus(3000), Conversion("openai"), parquet=parquet)
        assert list((folder / "data").iterdir()) == []


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidArgument, match="file/data cannot be written: Not a directory"):
        write_dataset(tmp_path / "file", [])


# ---- the command


def _convert(*arguments: object) -> int:
    given = parser_of("trajectories").parse_args(["convert", *map(str, arguments)])
    return COMMAND.run(given)


def test_old_files_become_a_data_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = tmp_path / "old.jsonl", tmp_path / "set"
    runs = list(corpus(400))
    lines = [json.dumps(sharegpt_record(it)) for it in runs]
    lines[200:] = [json.dumps(openai_record(it)) for it in runs[200:]]
    source.write_text("\n".join([*lines, "", lines[0]]))
    options = ("--max-tokens", 900, "--tokenizer", TOKENIZER, "--deduplicate", "--filter", "cut")
    assert _convert(source, "--out", out, "--format", "openai", *options, "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"train": 400, "failed": 0, "duplicate": 1}
    again = [
        parse_trajectory(line) for line in (out / "data/train.jsonl").read_bytes().splitlines()
    ]
    assert [it.facts.id for it in again] == [it.facts.id for it in runs]
    for trajectory in again:
        check_pairs(trajectory)


def test_lines_that_cannot_be_read_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "old.jsonl"
    source.write_text(f'{json.dumps(sharegpt_record(a_run()))}\n{{"x": 1}}\n')
    assert _convert(source, "--out", tmp_path / "set") == 1
    said = capsys.readouterr()
    with pytest.raises(InvalidArgument, match="gone cannot be read: No such file"):
        _convert(tmp_path / "gone", "--out", tmp_path / "set")
    assert f"{source}:2: no trajectory" in said.err
    assert "wrote 1 trajectory to" in said.out


def test_options_that_need_each_other_are_given_together(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="must be used together"):
        _convert(tmp_path, "--out", tmp_path, "--max-tokens", 5)
    with pytest.raises(InvalidArgument, match="there is no tokenizer 'nowhere'"):
        _convert(tmp_path, "--out", tmp_path, "--max-tokens", 5, "--tokenizer", "nowhere")
