"""What people see of a chat: words, stops, waits and a home that is gone."""

import io
import time
from pathlib import Path

import pyte
import pytest

from gateway_service.turns.presenter import render_answer
from hermes.agent.v1 import turn_event_pb2 as pb
from hermes.agent.v1.session_pb2 import Session
from hermes.agent.v1.turn_event_pb2 import (
    Cancelled,
    Notice,
    TextDelta,
    TextFinished,
    TurnEvent,
    TurnFinished,
)
from hermes.common.v1.usage_pb2 import Usage
from services.cli.acp.updates import fenced, preview
from services.cli.chat.one_shot import OneShot
from services.cli.chat.screen import COLOURED, PLAIN, Screen
from services.cli.chat.status import Status
from services.cli.chat.talk import watch_home
from services.cli.chat.turn_view import TurnView
from services.cli.console import wrap

COLUMNS, ROWS = 20, 6


def rows(terminal: pyte.Screen) -> list[str]:
    return [row.rstrip() for row in terminal.display if row.strip()]


def test_a_block_grows_in_place() -> None:
    terminal = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.Stream(terminal)
    stream.feed("\x1b[20h")  # a line feed returns the carriage, as with a terminal driver
    screen = Screen(
        stream.feed,
        stream.feed,
        line_styles=COLOURED,
        word_styles=COLOURED,
        columns=lambda: COLUMNS,
        draft_rows=lambda: ROWS - 1,
    )
    screen.words("Paris is a city ")
    assert rows(terminal) == ["Paris is a city"]
    screen.words("with **history**, and")
    assert rows(terminal) == ["Paris is a city with", "history, and"]
    screen.line("Trying again now.")
    assert rows(terminal)[-1] == "Trying again now."
    screen.words("# Over\n\n" + "".join(f"word{number} " for number in range(20)))
    assert rows(terminal)[-1] == "word18 word19"
    screen.end_line()
    screen.line("end")
    assert rows(terminal)[-2:] == ["word18 word19", "end"]


def test_a_row_that_is_too_wide_is_shown_once_it_has_ended() -> None:
    written = list[str]()
    screen = Screen(
        written.append,
        written.append,
        line_styles=COLOURED,
        word_styles=COLOURED,
        columns=lambda: COLUMNS,
        draft_rows=lambda: ROWS - 1,
    )
    screen.words("```\n" + "x" * 30)
    assert written == []
    screen.words("\n```\n")
    assert "".join(written).count("x" * 30) == 1


LEFT = "It may still be running."


@pytest.mark.parametrize(
    ("message", "said", "in_chat"),
    [("", "interrupted", "Stopped."), (LEFT, f"interrupted: {LEFT}", f"Stopped. {LEFT}")],
)
def test_what_a_stop_has_left_is_told(message: str, said: str, in_chat: str) -> None:
    event = TurnEvent(turn_finished=TurnFinished(cancelled=Cancelled(message=message)))
    terminal = io.StringIO()
    screen = Screen(terminal.write, terminal.write, line_styles=PLAIN, word_styles=PLAIN)
    once = OneShot(TurnView(screen))
    once.add(event)
    assert once.failure == said
    assert terminal.getvalue().strip() == said
    assert render_answer(event.turn_finished) == in_chat


def test_an_answer_that_waits_to_be_stored_is_shown_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines, words = io.StringIO(), io.StringIO()
    screen = Screen(lines.write, words.write, line_styles=PLAIN, word_styles=PLAIN)
    once = OneShot(TurnView(screen))
    for event in (
        TurnEvent(text_delta=TextDelta(step=1, text="Fine.")),
        TurnEvent(notice=Notice(text="This waits: no space", keeps_text=True)),
        TurnEvent(text_finished=TextFinished(step=1, text="Fine.")),
    ):
        once.add(event)
    assert words.getvalue().strip() == "Fine."
    assert lines.getvalue() == "This waits: no space\n"
    assert capsys.readouterr().err == "hermes: This waits: no space\n"


@pytest.mark.parametrize("as_json", [True, False])
def test_notices_are_told_beside_the_answer(
    capsys: pytest.CaptureFixture[str], *, as_json: bool
) -> None:
    words = io.StringIO()
    screen = Screen(lambda _: None, words.write, line_styles=PLAIN, word_styles=PLAIN)
    once = OneShot(None if as_json else TurnView(screen))
    once.add(TurnEvent(notice=Notice(text="Trying again in 2 s.")))
    assert (words.getvalue(), capsys.readouterr()) == ("", ("", "hermes: Trying again in 2 s.\n"))


def follow(status: Status, **kind: object) -> None:
    status.follow(pb.TurnEvent(**kind))  # pyright: ignore[reportArgumentType]


def test_it_tells_what_is_done_and_what_the_session_has_used() -> None:
    status = Status()
    assert status.render(is_busy=False) == ""
    follow(status, turn_started=pb.TurnStarted(model="otter-1"))
    assert status.render(is_busy=True)[1:] == " 0 s waiting for the model · otter-1"
    follow(status, prompt_progress=pb.PromptProgress(read_tokens=1000, total_tokens=4000))
    assert " reading the prompt (25 %) · " in status.render(is_busy=True)
    follow(status, text_delta=pb.TextDelta(text="Hello"))
    assert " answering · " in status.render(is_busy=True)
    time.sleep(0.25)
    usage = Usage(prompt_tokens=7000, completion_tokens=500, cost_micro_usd=20_000)
    for step in (1, 2):
        reported = pb.UsageReported(step=step, usage=usage, window_tokens=131_072)
        follow(status, usage_reported=reported)
    follow(status, tool_started=pb.ToolStarted(name="terminal"))
    assert " terminal · " in status.render(is_busy=True)
    follow(status, tool_finished=pb.ToolFinished(backend="docker"))
    speed, *rest = status.render(is_busy=False).split(" · ")
    assert 500 < int(speed.removesuffix(" tokens/s")) <= 2500
    assert rest == ["otter-1", "7.5k of 131k tokens", "$0.0400", "docker"]


def test_a_session_begins_with_its_own_cost() -> None:
    status = Status()
    follow(status, usage_reported=pb.UsageReported(usage=Usage(prompt_tokens=9000)))
    status.begin_session(Session(model="otter-2", usage=Usage(cost_micro_usd=1_500_000)))
    assert status.render(is_busy=False) == "otter-2 · $1.50"


def test_a_compressed_conversation_uses_less() -> None:
    status = Status()
    follow(status, usage_reported=pb.UsageReported(usage=Usage(prompt_tokens=9000)))
    follow(status, compressed=pb.Compressed(before_token_count=9000, after_token_count=3000))
    assert status.render(is_busy=False) == "3.0k tokens"


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("one two three", ["one two three"]),
        ("one two three four five", ["one two three four", "five"]),
        ("model    it is a long name", ["model    it is a", "         long name"]),
        (
            "✗ model   it is\n          a long name",
            ["✗ model   it is", "          a long", " " * 10 + "name"],
        ),
        ("a /very/long/path/that/is-copied", ["a", "/very/long/path/that/is-copied"]),
    ],
)
def test_lines_break_between_words_below_their_label(
    text: str, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "18")
    assert wrap(text, Terminal()).split("\n") == lines
    assert wrap(text, io.StringIO()) == text, "programs get whole lines"


async def test_it_is_told_once(tmp_path: Path) -> None:
    home, told = tmp_path / "home", list[str]()
    await watch_home(home, lambda text, _style: told.append(text), every_s=0.01)
    (line,) = told
    assert line.startswith(f"{home} is gone, ")
    assert "--home" in line


RESULT = "[Untrusted data 0123456789ab from a page]\nhello\n[End of untrusted data 0123456789ab]"


def test_marks_for_the_model_are_left_out_of_results_only() -> None:
    shown = preview(RESULT).content
    assert shown.type == "text"
    assert shown.text == "```\nhello\n```"
    # What a person approves is shown whole: a command may have such lines of its own.
    asked = fenced(f"echo {RESULT}; rm -r src").content
    assert asked.type == "text"
    assert RESULT in asked.text
