"""Converts Telegram's updates to events."""

import re
from typing import TYPE_CHECKING

from msgspec import Struct

from gateway_service.messages import ButtonPress, Event, MessageEvent, Quote, Source

if TYPE_CHECKING:
    from telegram import CallbackQuery, Message, MessageOrigin, Update, User

_TYPES = {"private": "dm", "group": "group", "supergroup": "group", "channel": "channel"}


class Bot(Struct, frozen=True):
    """Our own identity on Telegram."""

    account_id: str
    username: str


class _Author(Struct, frozen=True):
    name: str
    id: str = ""
    """The person's id; empty for chats and hidden users."""


def read_update(update: "Update", me: Bot) -> Event | None:
    """Return the event of an update; None if it is not for us."""
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
        return None  # somebody joined, or something was pinned
    source = _source(message, sender)
    if source.chat_type != "dm" and not _is_addressed(message, text, me):
        return None
    answered = message.reply_to_message
    # Unreadable messages get a notice, so their quotes do not matter.
    quotes = _answered(message, sender, me) if text else ()
    if text and message.forward_origin is not None:
        author = _author(message.forward_origin)
        if author.id != str(sender.id):
            # Forwarded text is never a command.
            quotes, text = (*quotes, Quote(text, author.name, is_forwarded=True)), ""
    if source.chat_type != "dm" and not text.startswith("/"):
        text = re.sub(f"@{re.escape(me.username)}", "", text, flags=re.IGNORECASE).strip()
    replies_to = str(answered.message_id) if answered else ""
    return MessageEvent(event_id, source, text, replies_to, quotes)


def _answered(message: "Message", sender: "User", me: Bot) -> tuple[Quote, ...]:
    """Return the message that is replied to, unless it is the bot's or the sender's own."""
    answered, elsewhere, part = message.reply_to_message, message.external_reply, message.quote
    if answered is not None:
        author, said = _author_of(answered), answered.text or answered.caption or ""
    elif elsewhere is not None:
        author, said = _author(elsewhere.origin), ""
    else:
        return ()
    said = part.text if part is not None else said
    if not said or author.id in (str(sender.id), me.account_id):
        return ()
    return (Quote(said, author.name, is_forwarded=False),)


def _author_of(message: "Message") -> _Author:
    """Return a message's author; the sender may have forwarded it."""
    if message.forward_origin is not None:
        return _author(message.forward_origin)
    if message.sender_chat is not None:
        return _Author(message.sender_chat.title or "")
    sender = message.from_user
    return _Author("") if sender is None else _Author(sender.full_name, str(sender.id))


def _author(origin: "MessageOrigin") -> _Author:
    """Return what is known of the author: a person, a chat, or only a name."""
    if (user := getattr(origin, "sender_user", None)) is not None:
        return _Author(user.full_name, str(user.id))
    chat = getattr(origin, "sender_chat", None) or getattr(origin, "chat", None)
    return _Author(getattr(origin, "sender_user_name", "") or getattr(chat, "title", "") or "")


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
    """In groups, only mentions, replies to us, and commands that name no other bot count."""
    replied_to = message.reply_to_message and message.reply_to_message.from_user
    if replied_to and str(replied_to.id) == me.account_id:
        return True
    if text.startswith("/"):
        word = text.split(maxsplit=1)[0]
        return "@" not in word or word.lower().endswith(f"@{me.username}".lower())
    return f"@{me.username}".lower() in text.lower()
