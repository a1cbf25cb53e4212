"""What Telegram's updates mean to Hermes."""

import re
from typing import TYPE_CHECKING

from msgspec import Struct

from gateway_service.messages import ButtonPress, Event, MessageEvent, Source

if TYPE_CHECKING:
    from telegram import CallbackQuery, Message, Update, User

_TYPES = {"private": "dm", "group": "group", "supergroup": "group", "channel": "channel"}


class Bot(Struct, frozen=True):
    """Who we are on Telegram."""

    account_id: str
    username: str


def event_of(update: "Update", me: Bot) -> Event | None:
    """The event of an update; None when it is not meant for us."""
    event_id = f"{me.account_id}:{update.update_id}"
    if update.message is not None:
        return _message(event_id, update.message, me)
    if update.callback_query is not None:
        return _press(event_id, update.callback_query)
    return None


def _message(event_id: str, message: "Message", me: Bot) -> MessageEvent | None:
    sender = message.from_user
    if sender is None or sender.is_bot:
        return None
    text = message.text or message.caption or ""
    if not text and message.effective_attachment is None:
        return None  # somebody joined, something was pinned
    source = _source(message, sender)
    if source.chat_type != "dm":
        if not _is_addressed(message, text, me):
            return None
        if not text.startswith("/"):
            text = re.sub(f"@{re.escape(me.username)}", "", text, flags=re.IGNORECASE).strip()
    replied_to = message.reply_to_message
    return MessageEvent(event_id, source, text, str(replied_to.message_id) if replied_to else "")


def _press(event_id: str, query: "CallbackQuery") -> ButtonPress | None:
    from telegram import Message

    if not isinstance(query.message, Message) or not query.data:
        return None
    source = _source(query.message, query.from_user)
    return ButtonPress(event_id, source, query.id, query.data)


def _source(message: "Message", sender: "User") -> Source:
    is_topic = bool(message.is_topic_message and message.message_thread_id)
    return Source(
        platform="telegram",
        chat_id=str(message.chat.id),
        thread_id=str(message.message_thread_id) if is_topic else "",
        user_id=str(sender.id),
        user_name=sender.full_name,
        chat_type=_TYPES.get(message.chat.type, "group"),
    )


def _is_addressed(message: "Message", text: str, me: Bot) -> bool:
    """In a group, only what is said to us: a mention, a reply, or a command that names no other."""
    replied_to = message.reply_to_message and message.reply_to_message.from_user
    if replied_to and str(replied_to.id) == me.account_id:
        return True
    if text.startswith("/"):
        word = text.split(maxsplit=1)[0]
        return "@" not in word or word.lower().endswith(f"@{me.username}".lower())
    return f"@{me.username}".lower() in text.lower()
