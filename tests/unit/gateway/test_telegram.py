"""Updates of Telegram, and the way to it."""

from typing import Any

import pytest
from telegram import Update

from gateway_service.accounts.checks import checks
from gateway_service.errors import AccountRefused
from gateway_service.messages import ChatMove, FileKind, MessageEvent, Quote, Reaction, RemoteFile
from gateway_service.platforms.telegram.events import Bot, drop_unreadable, find_moves, read_updates
from gateway_service.platforms.telegram.platform import TelegramPlatform
from services.config.settings import load_settings
from services.runtime.checks import Verdict
from tests.fakes.telegram import TOKEN
from tests.fakes.telegram_rules import mentions

ME = Bot("4242", "hermes_bot")
ADA = {"id": 7, "is_bot": False, "first_name": "Ada"}
EVE = {"id": 9, "is_bot": False, "first_name": "Eve"}
NEWS = {"id": -5, "type": "channel", "title": "News"}
TEAM = {"id": -6, "type": "supergroup", "title": "Team"}


def event(**more: Any) -> MessageEvent:
    """The event of Ada's message."""
    chat = {"id": 7, "type": "private"}
    message = {"message_id": 1, "date": 1, "chat": chat, "from": ADA, "text": "/stop", **more}
    [found] = read_updates([Update.de_json({"update_id": 1, "message": message}, None)], ME)
    assert isinstance(found, MessageEvent)
    return found


def heard(text: str, **more: Any) -> str | None:
    """What the bot hears of a message in a group; None where it is not meant."""
    said = {"text": text, "entities": mentions(text), "chat": TEAM, **more}
    message = {"message_id": 1, "date": 1, "from": ADA, **said}
    events = read_updates([Update.de_json({"update_id": 1, "message": message}, None)], ME)
    return events[0].text if events and isinstance(events[0], MessageEvent) else None


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("@Hermes_Bot hello", "hello"),
        ("🦉 hello, @hermes_bot", "🦉 hello,"),
        ("@hermes_bot2 hello", None),
        ("@hermes_bot2 and @hermes_bot", "@hermes_bot2 and"),
        ("write to foo@hermes_bot.example", None),
        ("/stop@hermes_bot", "/stop@hermes_bot"),
        ("/stop@hermes_bot2", None),
    ],
)
def test_in_a_group_whoever_is_mentioned_is_meant(said: str, expected: str | None) -> None:
    assert heard(said) == expected
    assert heard(said, entities=[]) == expected


def test_what_is_quoted_as_code_is_no_mention() -> None:
    code = {"type": "code", "offset": 4, "length": 11}
    assert heard("say @hermes_bot", entities=[code]) is None


def test_a_mention_without_a_user_name_or_in_a_caption_counts() -> None:
    us = {"id": 4242, "is_bot": True, "first_name": "H"}
    by_name = {"type": "text_mention", "offset": 0, "length": 6, "user": us}
    assert heard("Hermes, hi", entities=[by_name]) == ", hi"
    picture = [{"file_id": "p", "file_unique_id": "u", "width": 1, "height": 1}]
    caption = {"caption": "@hermes_bot see", "caption_entities": mentions("@hermes_bot see")}
    assert heard("", photo=picture, **caption) == "see"
    assert heard("", photo=picture) is None


def test_a_message_in_a_topic_that_the_bot_has_opened_is_no_reply_to_it() -> None:
    us = {"id": 4242, "is_bot": True, "first_name": "H"}
    opening = {"message_id": 2, "date": 1, "chat": TEAM, "from": us}
    created = {"forum_topic_created": {"name": "Talk", "icon_color": 1}}
    assert heard("hello", reply_to_message={**opening, **created}) is None
    assert heard("hello", reply_to_message={**opening, "text": "Hi."}) == "hello"


@pytest.mark.parametrize(
    ("more", "joint"),
    [
        ({"text": "a" * 4096}, ""),
        ({"text": "🦉" * 1500}, "\n"),
        ({"text": "a" * 2048}, None),
        ({"media_group_id": "g"}, "\n"),
        ({"forward_origin": {"type": "user", "date": 1, "sender_user": EVE}}, "\n"),
    ],
)
def test_what_a_client_may_have_cut_has_a_joint(more: dict[str, Any], joint: str | None) -> None:
    assert event(**more).joint == joint


def test_in_a_group_the_next_part_of_a_message_needs_no_mention() -> None:
    long = "@hermes_bot " + "a" * 4084
    texts = [("hi", 1), (long, 2), ("b", 3), ("c", 3), (long, 5), ("much later", 60)]
    updates = [
        Update.de_json(
            {
                "update_id": number,
                "message": {"message_id": 1, "date": date, "chat": TEAM, "from": ADA, "text": text},
            },
            None,
        )
        for number, (text, date) in enumerate(texts)
    ]
    heard = [each.text for each in read_updates(updates, ME) if isinstance(each, MessageEvent)]
    assert heard == ["a" * 4084, "b", "a" * 4084]


def test_a_group_that_becomes_a_supergroup_is_followed() -> None:
    old = {"chat": {"id": -5, "type": "group"}, "migrate_to_chat_id": -1005}
    new = {"chat": {"id": -1005, "type": "supergroup"}, "migrate_from_chat_id": -5}
    updates = [
        Update.de_json({"update_id": 1, "message": {"message_id": 1, "date": 1, **each}}, None)
        for each in (old, new)
    ]
    assert find_moves(updates) == [ChatMove("-5", "-1005")] * 2


def test_an_update_that_cannot_be_read_is_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    chat = {"id": 7, "type": "private"}
    fine = {"message_id": 1, "date": 1, "chat": chat, "from": ADA, "text": "hi"}
    updates = [
        {"update_id": 1, "message": {**fine, "poll": {"id": "1"}}},
        {"update_id": 2, "message": "?"},
        {"update_id": 3, "message": fine},
        {"update_id": 4, "message": {**fine, "date": 10**18}},
    ]
    answer = drop_unreadable({"ok": True, "result": updates})
    bare: list[Any] = [{"update_id": number} for number in (1, 2, 4)]
    assert answer["result"] == [*bare[:2], updates[2], bare[2]]
    read = Update.de_list(answer["result"], None)
    assert [event.event_id for event in read_updates(read, ME)] == ["4242:3"]
    assert len(caplog.messages) == 3
    assert drop_unreadable({"ok": False}) == {"ok": False}


@pytest.mark.parametrize(
    ("origin", "author"),
    [
        ({"type": "user", "sender_user": EVE}, "Eve"),
        ({"type": "user", "sender_user": {"id": 4242, "is_bot": True, "first_name": "H"}}, "H"),
        ({"type": "hidden_user", "sender_user_name": "Ada"}, "Ada"),
        ({"type": "chat", "sender_chat": TEAM}, "Team"),
        ({"type": "channel", "chat": NEWS, "message_id": 3}, "News"),
    ],
)
def test_what_is_forwarded_is_of_its_author(origin: dict[str, Any], author: str) -> None:
    found = event(forward_origin={"date": 1, **origin})
    assert found.text == ""
    assert found.quotes == (Quote("/stop", author, is_forwarded=True),)


def test_a_voice_that_is_forwarded_is_not_the_senders() -> None:
    voice = {"file_id": "v", "file_unique_id": "u", "duration": 1, "mime_type": "audio/ogg"}
    origin = {"type": "user", "date": 1, "sender_user": EVE}
    found = event(text=None, voice=voice, forward_origin=origin)
    assert found.files == (RemoteFile(FileKind.VOICE, "v", mime="audio/ogg", is_forwarded=True),)


def test_what_somebody_forwards_of_their_own_is_theirs() -> None:
    found = event(forward_origin={"date": 1, "type": "user", "sender_user": ADA})
    assert (found.text, found.quotes) == ("/stop", ())


def test_a_part_of_a_message_elsewhere_is_quoted() -> None:
    origin = {"type": "channel", "date": 1, "chat": NEWS, "message_id": 3}
    found = event(external_reply={"origin": origin}, quote={"text": "so", "position": 0})
    assert (found.text, found.quotes) == ("/stop", (Quote("so", "News", is_forwarded=False),))


def test_whoever_speaks_for_a_chat_has_its_name() -> None:
    anonymous = {"id": 1087968824, "is_bot": True, "first_name": "Group"}
    chat = {"id": 7, "type": "private"}
    answered = {"message_id": 2, "date": 1, "chat": chat, "from": anonymous, "text": "so"}
    found = event(reply_to_message={**answered, "sender_chat": TEAM})
    assert found.quotes == (Quote("so", "Team", is_forwarded=False),)


def test_a_message_without_words_quotes_none() -> None:
    topic = {"message_id": 2, "date": 1, "chat": TEAM, "from": EVE}
    created = {"forum_topic_created": {"name": "Talk", "icon_color": 1}}
    assert event(reply_to_message={**topic, **created}).quotes == ()


def test_a_picture_comes_with_what_it_answers() -> None:
    answered = {"message_id": 2, "date": 1, "chat": {"id": 7, "type": "private"}, "from": EVE}
    picture = [{"file_id": "p", "file_unique_id": "u", "width": 1, "height": 1}]
    found = event(text=None, photo=picture, reply_to_message={**answered, "text": "so"})
    assert (found.text, [quote.text for quote in found.quotes]) == ("", ["so"])
    assert found.files == (RemoteFile(FileKind.IMAGE, "p"),)


def test_a_sticker_that_moves_is_its_picture() -> None:
    about = {"file_unique_id": "u", "width": 1, "height": 1}
    kind = {"is_animated": True, "is_video": False, "type": "regular"}
    moving = {"file_id": "moving", **about, **kind, "thumbnail": {"file_id": "still", **about}}
    assert event(text=None, sticker=moving).files == (RemoteFile(FileKind.IMAGE, "still"),)
    still = {**moving, "is_animated": False, "file_id": "webp"}
    assert event(text=None, sticker=still).files == (RemoteFile(FileKind.IMAGE, "webp"),)


def test_an_edited_message_names_the_one_that_it_was() -> None:
    chat = {"id": 7, "type": "private"}
    edited = {"message_id": 5, "date": 1, "edit_date": 2, "chat": chat, "from": ADA, "text": "b"}
    [found] = read_updates([Update.de_json({"update_id": 1, "edited_message": edited}, None)], ME)
    assert isinstance(found, MessageEvent)
    assert (found.edits, found.message_id, found.text) == ("5", "5", "b")
    assert not event().edits


def test_a_reaction_is_the_emoji_that_was_added() -> None:
    def read(old: list[str], new: list[str], **who: Any) -> list[Any]:
        lists = {
            f"{name}_reaction": [{"type": "emoji", "emoji": each} for each in emojis]
            for name, emojis in (("old", old), ("new", new))
        }
        changed = {"chat": TEAM, "message_id": 5, "date": 1, **lists, **who}
        update = Update.de_json({"update_id": 1, "message_reaction": changed}, None)
        return read_updates([update], ME)

    [found] = read(["🎉"], ["🎉", "👍"], user=EVE)
    assert isinstance(found, Reaction)
    assert (found.message_id, found.emoji, found.source.user_id) == ("5", "👍", "9")
    assert (found.source.chat_id, found.source.chat_type) == ("-6", "group")
    assert read(["👍"], [], user=EVE) == []
    assert read([], ["👍"]) == [], "nobody knows who it was"


@pytest.fixture(params=["socks4://127.0.0.1:9", "ftp://127.0.0.1:9"])
def proxy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", request.param)


@pytest.mark.usefixtures("proxy")
async def test_a_proxy_that_cannot_be_used_is_named() -> None:
    with pytest.raises(AccountRefused, match="proxy that ALL_PROXY"):
        async with TelegramPlatform(TOKEN):
            pass


@pytest.mark.usefixtures("proxy")
async def test_the_doctor_names_it_too() -> None:
    [check] = await checks(load_settings({}, {"TELEGRAM_BOT_TOKEN": TOKEN}))
    assert check.verdict is Verdict.FAILED
    assert "proxy that ALL_PROXY" in check.message
