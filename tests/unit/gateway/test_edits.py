"""New versions of messages that wait: only their authors change them."""

from datetime import UTC, datetime

from gateway_service.messages import MessageEvent, Source
from gateway_service.storage.inbox import Waiting
from gateway_service.turns.edits import fold_edits

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
ADA = Source("matrix", "!r", user_id="@ada", chat_type="group", is_shared=True)
EVE = Source("matrix", "!r", user_id="@eve", chat_type="group", is_shared=True)


def waiting(sequence: int, event: MessageEvent) -> Waiting:
    return Waiting(sequence, event, NOW)


def test_a_waiting_message_is_changed_by_its_author_alone() -> None:
    said = waiting(1, MessageEvent("e1", ADA, "hello", message_id="$1"))
    hers = waiting(2, MessageEvent("e2", ADA, "hello all", message_id="$2", edits="$1"))
    forged = waiting(3, MessageEvent("e3", EVE, "/yolo on", message_id="$3", edits="$1"))
    [changed] = fold_edits([said, hers])
    assert isinstance(changed.event, MessageEvent)
    assert (changed.event.text, changed.others) == ("hello all", (2,))
    assert fold_edits([said, forged]) == [said, forged]
