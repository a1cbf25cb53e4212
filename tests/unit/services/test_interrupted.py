"""What people are told of a turn that was stopped, in a terminal, by a script and in a chat."""

import io

import pytest
from rich.console import Console

from gateway_service.convert import turn_event
from gateway_service.events import Ended
from hermes.agent.v1.turn_event_pb2 import Cancelled, TurnEvent, TurnFinished
from services.cli.transcript import Transcript
from services.cli.turn_view import TurnView

LEFT = "It may still be running."


@pytest.mark.parametrize(
    ("message", "said", "in_chat"),
    [("", "interrupted", "Stopped."), (LEFT, f"interrupted: {LEFT}", f"Stopped. {LEFT}")],
)
def test_what_a_stop_has_left_is_told(message: str, said: str, in_chat: str) -> None:
    event = TurnEvent(turn_finished=TurnFinished(cancelled=Cancelled(message=message)))
    transcript, terminal = Transcript(), io.StringIO()
    transcript.add(event)
    TurnView(Console(file=terminal)).show(event)
    assert transcript.failure == said
    assert terminal.getvalue().strip() == said
    assert turn_event(event) == Ended("", in_chat)
