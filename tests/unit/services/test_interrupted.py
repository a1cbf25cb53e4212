"""What people are told of a turn that was stopped, in a terminal, by a script and in a chat."""

import io

import pytest

from gateway_service.turns.presenter import render_answer
from hermes.agent.v1.turn_event_pb2 import Cancelled, TurnEvent, TurnFinished
from services.cli.chat.one_shot import OneShot
from services.cli.chat.screen import PLAIN, Screen
from services.cli.chat.turn_view import TurnView

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
