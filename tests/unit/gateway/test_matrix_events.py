"""Events of Matrix rooms: who is addressed, threads, replies, new versions and files."""

from typing import Any

import pytest
from nio import MatrixRoom
from nio.crypto.attachments import encrypt_attachment

from gateway_service.errors import Refused
from gateway_service.messages import FileKind, MessageEvent, Quote, Reaction
from gateway_service.platforms.matrix.events import (
    Account,
    ContentWriter,
    read_message,
    read_reaction,
)
from gateway_service.platforms.matrix.files import Decryption

ME = Account("@hermes:x.org", "Hermes")
ADA, BOB = "@ada:x.org", "@bob:x.org"


def room(*others: str) -> MatrixRoom:
    found = MatrixRoom("!r:x.org", ME.user_id)
    for user in (ME.user_id, *others):
        found.add_member(user, user[1:4].title(), None)
    return found


def said(body: str, /, sender: str = ADA, **content: Any) -> dict[str, Any]:
    return {
        "type": "m.room.message",
        "event_id": "$1",
        "sender": sender,
        "content": {"msgtype": "m.text", "body": body, **content},
    }


def mentions(*users: str) -> dict[str, Any]:
    return {"m.mentions": {"user_ids": users}}


def relates(**relation: Any) -> dict[str, Any]:
    return {"m.relates_to": relation}


def answers(event_id: str) -> dict[str, Any]:
    return {"m.relates_to": {"m.in_reply_to": {"event_id": event_id}}}


def read(
    raw: dict[str, Any], *others: str, answered: dict[str, Any] | None = None
) -> MessageEvent | None:
    return read_message(raw, answered, room(*(others or (ADA,))), ME)


def test_a_room_of_two_is_a_direct_chat() -> None:
    event = read(said("Hello"))
    assert event is not None
    assert (event.text, event.source.chat_type, event.source.user_name) == ("Hello", "dm", "Ada")
    assert (event.source.chat_id, event.source.user_id) == ("!r:x.org", ADA)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (said("hello everybody"), None),
        (said("Hermes: hello", **mentions(ME.user_id)), "hello"),
        (said("Hermes: hello", **mentions()), None),
        (said("hermes, hello"), "hello"),
        (said("Hermeseta: hello"), None),
        (said("hi", formatted_body=f'<a href="https://matrix.to/#/{ME.user_id}">H</a> hi'), "hi"),
        (said("/status"), "/status"),
    ],
)
def test_in_a_group_only_what_is_said_to_us_is_read(raw: dict[str, Any], text: str | None) -> None:
    event = read(raw, ADA, BOB)
    assert (event.text if event else None) == text


def test_an_answer_to_us_is_for_us() -> None:
    ours = said("Shall I?", ME.user_id)
    event = read(
        said("> <@hermes:x.org> Shall I?\n\nYes", **answers("$0")), ADA, BOB, answered=ours
    )
    assert event is not None
    assert (event.text, event.replies_to, event.quotes) == ("Yes", "$0", ())


def test_an_answer_to_somebody_quotes_them() -> None:
    raw = said("Hermes: is that so?", **answers("$0"))
    event = read(raw, ADA, BOB, answered=said("The sky is green.", BOB))
    assert event is not None
    assert event.quotes == (Quote("The sky is green.", "Bob", is_forwarded=False),)


def test_an_answer_to_a_deleted_message_is_read() -> None:
    deleted: dict[str, Any] = {**said("", BOB), "content": {}}
    event = read(said("Hermes: why?", **answers("$0")), ADA, BOB, answered=deleted)
    assert event is not None
    assert (event.text, event.quotes) == ("why?", ())
    assert read(deleted) is None


def test_a_thread_is_a_thread_and_no_answer() -> None:
    last = {"m.in_reply_to": {"event_id": "$last"}}
    relation = relates(rel_type="m.thread", event_id="$root", is_falling_back=True, **last)
    event = read(said("more", **relation))
    assert event is not None
    assert (event.source.thread_id, event.replies_to) == ("$root", "")


def test_a_new_version_names_the_old_one() -> None:
    new: dict[str, Any] = {"m.new_content": {"msgtype": "m.text", "body": "better"}}
    event = read(said("* better", **new, **relates(rel_type="m.replace", event_id="$0")))
    assert event is not None
    assert (event.text, event.edits) == ("better", "$0")


def test_files_are_named_with_their_caption() -> None:
    recorded: dict[str, Any] = {"org.matrix.msc3245.voice": {}}
    voice = said(
        "voice.ogg",
        msgtype="m.audio",
        url="mxc://x.org/a",
        info={"mimetype": "audio/ogg", "size": 12},
        **recorded,
    )
    event = read(voice)
    assert event is not None
    assert event.text == ""
    [file] = event.files
    assert (file.kind, file.id, file.mime) == (FileKind.VOICE, "mxc://x.org/a", "audio/ogg")
    assert file.length_bytes == 12
    picture = said("What is this?", msgtype="m.image", filename="owl.png", url="mxc://x.org/b")
    event = read(picture)
    assert event is not None
    assert (event.text, event.files[0].name) == ("What is this?", "owl.png")


def test_a_thumb_on_a_message_is_a_reaction() -> None:
    def put(key: str, kind: str = "m.annotation") -> Reaction | None:
        relation = {"rel_type": kind, "event_id": "$0", "key": key}
        event = {"type": "m.reaction", "event_id": "$1", "sender": ADA}
        return read_reaction({**event, "content": relates(**relation)}, room(ADA))

    found = put("👍\ufe0f")
    assert found is not None
    assert (found.message_id, found.emoji[:1], found.source.user_id) == ("$0", "👍", ADA)
    assert put("🎉") is None
    assert put("👍", "m.thread") is None
    withdrawn = {"event_id": "$1", "sender": ADA, "content": dict[str, Any]()}
    assert read_reaction(withdrawn, room(ADA)) is None


def test_a_sticker_is_a_picture_and_a_place_has_no_words() -> None:
    event = read({**said("An owl", url="mxc://x.org/b", msgtype=None), "type": "m.sticker"})
    assert event is not None
    assert (event.text, event.files[0].kind) == ("", FileKind.IMAGE)
    place = read(said("Ada was at geo:1,2", msgtype="m.location", geo_uri="geo:1,2"))
    assert place is not None
    assert (place.text, place.files) == ("", ())
    assert read(said("Please verify me", msgtype="m.key.verification.request")) is None


def test_a_notice_is_of_no_person() -> None:
    assert read(said("I am a bot", msgtype="m.notice")) is None


def test_markdown_becomes_html_that_cannot_hold_tags() -> None:
    content = ContentWriter().write("**b** <script>\n\n| a | b |\n|---|---|\n| 1 | 2 |")
    assert "<strong>b</strong> &lt;script&gt;" in content["formatted_body"]
    assert "<td>1</td>" in content["formatted_body"]


def test_a_file_is_decrypted_in_parts_and_a_changed_one_is_refused() -> None:
    locked, keys = encrypt_attachment(b"an owl " * 1000)
    found = {"url": "mxc://x.org/1", **keys}
    decryption = Decryption(found)
    parts = [decryption.read(locked[start : start + 999]) for start in range(0, 7000, 999)]
    decryption.finish()
    assert b"".join(parts) == b"an owl " * 1000
    with pytest.raises(Refused, match="not what its sender"):
        Decryption(found).finish()
    with pytest.raises(Refused, match="keys"):
        Decryption({**found, "key": {"k": "AAA"}})
