"""A turn whose words are read by a program."""

import pytest

from hermes.agent.v1.turn_event_pb2 import Notice, TextDelta, ToolStarted, TurnEvent
from services.cli.split_view import SplitView


def test_why_a_turn_waits_is_said_beside_its_words(capsys: pytest.CaptureFixture[str]) -> None:
    view = SplitView()
    view.show(TurnEvent(notice=Notice(text="This waits: no space is left")))
    view.show(TurnEvent(tool_started=ToolStarted(call_id="1", name="terminal")))
    view.show(TurnEvent(text_delta=TextDelta(step=1, text="Hello.")))
    assert capsys.readouterr() == ("Hello.", "hermes: This waits: no space is left\n")
