"""Turn events as messages of the wire."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from agent_service.servicer.events import MESSAGE_BYTES, in_messages
from agent_service.servicer.fields import timestamp
from hermes.agent.v1.turn_event_pb2 import TextFinished, TurnEvent


def event(sequence: int, text_bytes: int) -> TurnEvent:
    return TurnEvent(sequence=sequence, text_finished=TextFinished(text="x" * text_bytes))


def test_a_long_backlog_is_sent_in_messages_of_a_bounded_size() -> None:
    sizes = [10, MESSAGE_BYTES // 2, MESSAGE_BYTES // 2, 10, 2 * MESSAGE_BYTES, 10, 10]
    backlog = [event(number, size) for number, size in enumerate(sizes, 1)]
    messages = list(in_messages(backlog))
    assert [sent for together in messages for sent in together] == backlog
    assert [len(together) for together in messages] == [2, 2, 1, 2]
    assert list(in_messages([])) == []


@pytest.mark.parametrize(
    ("moment", "seconds", "nanos"),
    [
        (datetime(2026, 1, 2, 3, 4, 5, 999_999, UTC), 1_767_323_045, 999_999_000),
        (datetime(2026, 1, 2, 3, tzinfo=timezone(timedelta(hours=3))), 1_767_312_000, 0),
        (datetime(1969, 12, 31, 23, 59, 59, 1, UTC), -1, 1_000),
    ],
)
def test_a_time_is_that_of_utc_to_the_microsecond(
    moment: datetime, seconds: int, nanos: int
) -> None:
    wire = timestamp(moment)
    assert (wire.seconds, wire.nanos) == (seconds, nanos)
    assert wire.ToDatetime(UTC) == moment
