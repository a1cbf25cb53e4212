"""What people see of a turn that waits for space on a full disk."""

import io

import pytest

from hermes.agent.v1.turn_event_pb2 import Notice, TextDelta, TextFinished, TurnEvent
from services.cli.chat.one_shot import OneShot
from services.cli.chat.screen import PLAIN, Screen
from services.cli.chat.turn_view import TurnView


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
