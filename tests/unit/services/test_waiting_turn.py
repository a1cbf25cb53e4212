"""What people see of a turn that waits, such as for space on a full disk."""

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


@pytest.mark.parametrize("as_json", [True, False])
def test_notices_are_told_beside_the_answer(
    capsys: pytest.CaptureFixture[str], *, as_json: bool
) -> None:
    words = io.StringIO()
    screen = Screen(lambda _: None, words.write, line_styles=PLAIN, word_styles=PLAIN)
    once = OneShot(None if as_json else TurnView(screen))
    once.add(TurnEvent(notice=Notice(text="Trying again in 2 s.")))
    assert (words.getvalue(), capsys.readouterr()) == ("", ("", "hermes: Trying again in 2 s.\n"))
