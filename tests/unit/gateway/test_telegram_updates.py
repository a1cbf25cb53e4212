"""Whose words a message of Telegram has."""

from typing import Any

import pytest
from telegram import Update

from gateway_service.messages import MessageEvent, Quote
from gateway_service.platforms.telegram_updates import Bot, read_update

ME = Bot("4242", "hermes_bot")
ADA = {"id": 7, "is_bot": False, "first_name": "Ada"}
EVE = {"id": 9, "is_bot": False, "first_name": "Eve"}
NEWS = {"id": -5, "type": "channel", "title": "News"}
TEAM = {"id": -6, "type": "supergroup", "title": "Team"}


def event(**more: Any) -> MessageEvent:
    """The event of Ada's message."""
    chat = {"id": 7, "type": "private"}
    message = {"message_id": 1, "date": 1, "chat": chat, "from": ADA, "text": "/stop", **more}
    update = Update.de_json({"update_id": 1, "message": message}, None)
    found = read_update(update, ME)
    assert isinstance(found, MessageEvent)
    return found


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


def test_a_picture_without_words_is_told_to_be_unreadable_whatever_it_answers() -> None:
    answered = {"message_id": 2, "date": 1, "chat": {"id": 7, "type": "private"}, "from": EVE}
    picture = [{"file_id": "p", "file_unique_id": "u", "width": 1, "height": 1}]
    found = event(text=None, photo=picture, reply_to_message={**answered, "text": "so"})
    assert (found.text, found.quotes) == ("", ())
