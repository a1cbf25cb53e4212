"""What the HTTP API makes of turns' events and of requests, without any server."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway_service.messages import EarlierMessage, FileKind, RemoteFile
from gateway_service.servicer.http.answer_text import AnswerText
from gateway_service.servicer.http.exchange import read
from gateway_service.servicer.http.requests import (
    MAX_EARLIER,
    MAX_TEXT_BYTES,
    ChatRequest,
    Conversation,
    InputMessage,
    ResponseRequest,
    read_input,
    read_messages,
    shorten,
)
from hermes.agent.v1.turn_event_pb2 import (
    Cancelled,
    Completed,
    LimitReached,
    Notice,
    TextDelta,
    TextFinished,
    TextSnapshot,
    TurnEvent,
    TurnFinished,
)
from services.errors import InvalidArgument


def delta(step: int, offset: int, text: str) -> TurnEvent:
    return TurnEvent(text_delta=TextDelta(step=step, offset=offset, text=text))


def finished(step: int, text: str) -> TurnEvent:
    return TurnEvent(text_finished=TextFinished(step=step, text=text))


def snapshot(step: int, text: str) -> TurnEvent:
    return TurnEvent(text_snapshot=TextSnapshot(step=step, text=text))


def completed(answer: str) -> TurnFinished:
    return TurnFinished(completed=Completed(answer=answer))


def shown(*events: TurnEvent, end: TurnFinished) -> str:
    """What a client has in the end."""
    text = AnswerText()
    pieces = [text.take(event) for event in events]
    pieces.append(text.end(end))
    assert text.text == "".join(pieces)
    return text.text


def test_steps_follow_each_other() -> None:
    events = (
        *(delta(1, 0, "I loo"), delta(1, 5, "k."), finished(1, "I look.")),
        *(delta(2, 0, "Found"), finished(2, "Found it.")),
    )
    assert shown(*events, end=completed("Found it.")) == "I look.\n\nFound it."


def test_a_text_that_begins_anew_follows_as_a_whole() -> None:
    again = (delta(1, 0, "Wait, "), delta(1, 0, "Now "), delta(1, 4, "so"), finished(1, "Now so."))
    assert shown(*again, end=completed("Now so.")) == "Wait, \n\nNow so."
    same = (delta(1, 0, "Wait"), delta(1, 0, "Wa"), delta(1, 2, "iter"), finished(1, "Waiter"))
    assert shown(*same, end=completed("Waiter")) == "Waiter"


def test_what_was_missed_comes_later() -> None:
    events = (snapshot(1, "One "), delta(1, 10, "three"), finished(1, "One two three"))
    assert shown(*events, end=completed("One two three")) == "One two three"
    assert shown(end=completed("All at once")) == "All at once"


def test_other_ends() -> None:
    said, note = finished(1, "Half"), TurnEvent(notice=Notice(text="Read this.", lasts=True))
    stopped = TurnFinished(cancelled=Cancelled(partial_answer="Half"))
    assert shown(said, note, end=stopped) == "Half\n\nStopped.\n\nRead this."
    limit = TurnFinished(limit_reached=LimitReached(message="Too many calls."))
    assert shown(end=limit) == "Too many calls."
    text = AnswerText()
    text.take(finished(1, "I look."))
    text.take(note)
    assert text.whole(completed("Found.")) == "Found.\n\nRead this."


PIECES = st.lists(st.text(min_size=1, max_size=5), max_size=5)


@given(PIECES, PIECES)
def test_whatever_comes_the_last_text_is_complete(first: list[str], second: list[str]) -> None:
    events: list[TurnEvent] = []
    for pieces in (first, second):
        offset = 0
        for piece in pieces:
            events.append(delta(1, offset, piece))
            offset += len(piece)
    answer = "".join(second)
    assert shown(*events, finished(1, answer), end=completed(answer)).endswith(answer)


def said(*texts: str) -> list[InputMessage]:
    return [InputMessage(("user", "assistant")[n % 2], text) for n, text in enumerate(texts)]


TEXTS = st.lists(st.text(alphabet="ab \n", min_size=1).filter(str.strip), min_size=1, max_size=4)


@given(TEXTS, st.text(min_size=1).filter(str.strip))
def test_a_conversation_is_recognized_by_what_was_said(texts: list[str], answer: str) -> None:
    asked = texts if len(texts) % 2 else texts[:-1]
    known = read_messages(said(*asked)).after(answer).fingerprint("ada")
    system = InputMessage("system", "It is noon.")
    again = read_messages([system, *said(*asked, f"  {answer}\n", "go on")])
    assert again.fingerprint("ada") == known
    assert again.fingerprint("bob") != known
    assert read_messages(said(*asked, answer + "x", "go on")).fingerprint("ada") != known


def test_words_do_not_move_between_messages() -> None:
    one, other = (
        Conversation("", tuple(EarlierMessage(role, text) for role, text in messages))
        for messages in (
            [("user", "a"), ("user", "b user 1 c")],
            [("user", "a b"), ("user", "user 1 c")],
        )
    )
    assert one.fingerprint("") != other.fingerprint("")


def test_long_conversations_are_shortened() -> None:
    many = [EarlierMessage("user", str(number)) for number in range(MAX_EARLIER + 1)]
    assert [each.text for each in shorten(many)] == [str(n) for n in range(1, MAX_EARLIER + 1)]
    large = [EarlierMessage("user", "x" * MAX_TEXT_BYTES), EarlierMessage("assistant", "y")]
    assert shorten(large) == (large[1],)


LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.text())
NAMES = st.sampled_from(["messages", "role", "content", "type", "text", "input", "n", "model"])
DOCUMENTS = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=5)
)


@given(DOCUMENTS | st.fixed_dictionaries({"messages": DOCUMENTS, "input": DOCUMENTS}))
def test_any_document_is_read_or_refused(document: object) -> None:
    body = json.dumps(document).encode()
    with suppress(InvalidArgument):
        assert read_messages(read(body, ChatRequest).messages).text.strip()
    with suppress(InvalidArgument):
        assert read_input(read(body, ResponseRequest)).text.strip()


@given(st.binary(max_size=50))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    with suppress(InvalidArgument):
        assert isinstance(read(body, ChatRequest), ChatRequest)


PNG = "data:image/png;base64,iVBORw0KGgo="


def test_files_come_with_the_last_message_and_are_noted_in_others() -> None:
    picture = {"type": "image_url", "image_url": {"url": PNG}}
    sound = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}}
    notes = {
        "type": "file",
        "file": {"file_data": "data:text/plain;charset=utf-8;base64,YQ==", "filename": "a.txt"},
    }
    first = {"role": "user", "content": [{"type": "text", "text": "Look"}, picture]}
    last = {"role": "user", "content": [sound, notes]}
    answer = {"role": "assistant", "content": "Nice."}
    asked = read(json.dumps({"messages": [first]}).encode(), ChatRequest)
    again = read(json.dumps({"messages": [first, answer, last]}).encode(), ChatRequest)
    one, two = read_messages(asked.messages), read_messages(again.messages)
    assert [each.file for each in one.files] == [RemoteFile(FileKind.IMAGE, "", "", "image/png")]
    assert [(each.file.kind, each.file.name, each.base64) for each in two.files] == [
        ("voice", "", "AAAA"),
        ("document", "a.txt", "YQ=="),
    ]
    assert two.earlier[0].text == "Look\n[image]"
    assert one.after("Nice.").fingerprint("") == two.fingerprint("")


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        {"type": "image_url", "image_url": "data:image/png,raw"},
        {"type": "input_file", "file_id": "file-1"},
        {"type": "input_audio"},
        {"type": "video"},
    ],
)
def test_files_elsewhere_are_refused(part: object) -> None:
    body = json.dumps({"messages": [{"role": "user", "content": [part]}]}).encode()
    with pytest.raises(InvalidArgument) as caught:
        read_messages(read(body, ChatRequest).messages)
    assert caught.value.metadata["code"] == "unsupported_content"
