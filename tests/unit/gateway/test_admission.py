"""What a person sends at once is one message, and only its author changes it."""

from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from gateway_service.messages import ButtonPress, FileKind, MessageEvent, Quote, RemoteFile, Source
from gateway_service.storage.inbox import Waiting
from gateway_service.turns.admission import MOMENT, fold_edits, gather, join, wait_for_more_s

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
ADA = Source("telegram", "5", user_id="7")
EVE = Source("telegram", "5", user_id="9")
ROOM = Source("matrix", "!r", user_id="@ada", chat_type="group", is_shared=True)
PICTURE = RemoteFile(FileKind.IMAGE, "p")


def said(
    sequence: int, text: str, source: Source = ADA, after_s: float = 0.0, **more: Any
) -> Waiting:
    event = MessageEvent(f"e{sequence}", source, text, **more)
    return Waiting(sequence, event, NOW + timedelta(seconds=after_s))


def test_a_text_that_was_cut_is_one_message() -> None:
    parts = [said(1, "one t", joint=""), said(2, "wo", joint="\n"), said(3, "three")]
    assert gather([*parts, said(4, "another")]) == parts
    whole = join(parts)
    assert isinstance(whole.event, MessageEvent)
    assert (whole.event.text, whole.sequence, whole.others) == ("one two\nthree", 1, (2, 3))


def test_an_album_is_one_message() -> None:
    quote = Quote("so", "Eve", is_forwarded=True)
    parts = [
        said(1, "", joint="\n", files=(PICTURE,)),
        said(2, "What is this?", joint="\n", replies_to="m1", quotes=(quote,)),
        said(3, "", joint="\n", files=(PICTURE,)),
    ]
    event = join(gather(parts)).event
    assert isinstance(event, MessageEvent)
    assert (event.text, len(event.files), event.replies_to) == ("What is this?", 2, "m1")
    assert event.quotes == (quote,)


def test_a_comment_and_what_it_forwards_are_one_message() -> None:
    forwarded = said(2, "", quotes=(Quote("so", "Eve", is_forwarded=True),), joint="\n")
    for comment, count in (("look at this", 2), ("/new", 1)):
        assert len(gather([said(1, comment), forwarded])) == count


def test_others_commands_buttons_and_what_comes_later_are_no_parts() -> None:
    first = said(1, "long", joint="")
    later = MOMENT.total_seconds() + 1
    others = [
        said(2, "hi", EVE),
        said(3, "/stop"),
        Waiting(4, ButtonPress("e4", ADA, "p", "x:once"), NOW),
        said(5, "much later", after_s=later),
    ]
    assert gather([first, *others]) == [first]
    part = said(6, "/usr/bin is a folder")
    assert gather([first, *others, part]) == [first, part]
    command = said(1, "/queue long", joint="")
    assert gather([command, said(2, "er")]) == [command, said(2, "er")]
    assert join([first]) == first


def test_only_what_usually_has_more_waits() -> None:
    assert wait_for_more_s(said(1, "short"), NOW) == 0
    assert wait_for_more_s(said(1, "long", joint=""), NOW) == MOMENT.total_seconds()
    assert wait_for_more_s(said(1, "long", joint=""), NOW + 2 * MOMENT) < 0


def test_a_waiting_message_is_changed_by_its_author_alone() -> None:
    first = said(1, "hello", ROOM, message_id="$1")
    hers = said(2, "hello all", ROOM, message_id="$2", edits="$1")
    forged = said(3, "/yolo on", replace(ROOM, user_id="@eve"), message_id="$3", edits="$1")
    [changed] = fold_edits([first, hers])
    assert isinstance(changed.event, MessageEvent)
    assert (changed.event.text, changed.others) == ("hello all", (2,))
    assert fold_edits([first, forged]) == [first, forged]
