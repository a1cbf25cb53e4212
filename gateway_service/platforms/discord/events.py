"""Converts discord.py's messages and interactions to events, and Markdown to Discord's."""

import re
from typing import TYPE_CHECKING

from gateway_service.messages import (
    ButtonPress,
    Event,
    FileKind,
    MessageEvent,
    Quote,
    Reaction,
    RemoteFile,
    Source,
    find_kind,
)
from gateway_service.platforms.base import THUMBS

if TYPE_CHECKING:
    from discord import Attachment, Interaction, Message, RawReactionActionEvent

NAME = "discord"
MESSAGE_CHARS = 2000

_MENTION = re.compile(r"<(@[!&]?|#)(\d+)>")
_FENCE = re.compile(r" {0,3}(?:```|~~~)")
_TABLE_RULE = re.compile(r"\s*\|?(?:\s*:?-+:?\s*\|)+(?:\s*:?-+:?\s*)?")
_DEEP_HEADING = re.compile(r"^ {0,3}#{4,6}\s+(.+?)\s*#*$")
_PICTURE = re.compile(r"!(?=\[[^\]\n]*\]\()")


def read_message(
    message: "Message", account_id: str, *, is_new: bool = True
) -> MessageEvent | None:
    """Return a person's message if it is for us: direct, mentioning us or replying to us."""
    sender, is_reply = message.author, message.type.name == "reply"
    if sender.bot or message.webhook_id or not (is_reply or message.type.name == "default"):
        return None
    source = _source(message.channel, str(sender.id), sender.display_name)
    mentioned = [each for each in message.mentions if str(each.id) == account_id]
    roles = [r for r in message.role_mentions if r.tags and str(r.tags.bot_id) == account_id]
    answered = _answered(message) if is_reply else None
    is_ours = answered is not None and str(answered.author.id) == account_id
    if source.chat_type != "dm" and not (mentioned or roles or is_ours):
        return None
    quotes = [Quote(each.content, "", is_forwarded=True) for each in message.message_snapshots]
    if answered is not None and not is_ours and answered.author.id != sender.id:
        quotes.insert(0, Quote(_text(answered, ()), answered.author.display_name, False))
    event_id, edits = f"{account_id}:{message.id}", ""
    if message.edited_at is not None and not is_new:
        event_id, edits = f"{event_id}:{message.edited_at.timestamp():.3f}", str(message.id)
    return MessageEvent(
        event_id,
        source,
        _text(message, [str(each.id) for each in (*mentioned, *roles)]),
        str(message.reference.message_id) if is_reply and message.reference else "",
        tuple(each for each in quotes if each.text),
        tuple(_file(each, message) for each in message.attachments),
        edits=edits,
        message_id=str(message.id),
    )


def read_interaction(pressed: "Interaction", account_id: str) -> Event | None:
    """Return the event of a pressed button or a slash command; None for other interactions."""
    data, kind = pressed.data or {}, pressed.type.name
    if pressed.channel is None:
        return None
    person = pressed.user
    source = _source(pressed.channel, str(person.id), person.display_name)
    event_id = f"{account_id}:{pressed.id}"
    if kind == "component":
        return ButtonPress(event_id, source, pressed.token, str(data.get("custom_id", "")))
    if kind != "application_command":
        return None
    words = [str(each.get("value", "")) for each in data.get("options", ())]
    return MessageEvent(event_id, source, " ".join([f"/{data.get('name', '')}", *words]))


def read_reaction(
    added: "RawReactionActionEvent", channel: object, account_id: str
) -> Reaction | None:
    """Return a thumb that a person put on a message of ours."""
    emoji, person = added.emoji.name, str(added.user_id)
    if str(added.message_author_id) != account_id or person == account_id:
        return None
    if emoji[:1] not in THUMBS.values():
        return None
    source = _source(channel, person, added.member.display_name if added.member else "")
    event_id = f"{account_id}:{added.message_id}:{person}:{emoji}"
    return Reaction(event_id, source, str(added.message_id), emoji)


def _answered(message: "Message") -> "Message | None":
    from discord import Message

    answered = message.reference and message.reference.resolved
    return answered if isinstance(answered, Message) else None


def _source(channel: object, user_id: str, user_name: str) -> Source:
    """Return where a message is from; a thread's chat is the channel that it belongs to."""
    from discord import DMChannel, PartialMessageable, Thread

    thread = channel if isinstance(channel, Thread) else None
    chat = channel if thread is None else thread.parent
    if isinstance(channel, PartialMessageable):
        is_direct = channel.guild_id is None
    else:
        is_direct = isinstance(channel, DMChannel)
    return Source(
        platform=NAME,
        chat_id=str(getattr(channel, "id", "") if thread is None else thread.parent_id),
        thread_id="" if thread is None else str(thread.id),
        user_id=user_id,
        user_name=user_name,
        chat_type="thread" if thread is not None else "dm" if is_direct else "group",
        chat_name="" if is_direct else getattr(chat, "name", ""),
    )


def _text(message: "Message", ours: "list[str] | tuple[()]") -> str:
    """Return the text with names in place of mentions, and without mentions of us."""
    names = {str(each.id): f"@{each.display_name}" for each in message.mentions}
    names |= {str(each.id): f"@{each.name}" for each in message.role_mentions}
    names |= {str(each.id): f"#{each.name}" for each in message.channel_mentions}
    names |= dict.fromkeys(ours, "")
    return _MENTION.sub(lambda found: names.get(found[2], found[0]), message.content).strip()


def _file(file: "Attachment", message: "Message") -> RemoteFile:
    mime = file.content_type or ""
    return RemoteFile(
        FileKind.VOICE if message.flags.voice else find_kind(mime),
        f"{message.channel.id}/{message.id}/{file.id}",
        file.filename,
        mime,
        file.size,
    )


def render(markdown: str) -> str:
    """Return Markdown as Discord shows it: tables as code, no deep headings, no pictures."""
    shown: list[str] = []
    lines, in_code, in_table = markdown.split("\n"), False, False
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if in_table and "|" not in line:
            shown.append("```")
            in_table = False
        if not in_code and not in_table and "|" in line and _TABLE_RULE.fullmatch(following):
            shown.append("```")
            in_table = True
        if _FENCE.match(line):
            in_code = not in_code
        is_text = not in_code and not in_table
        shown.append(_PICTURE.sub("", _DEEP_HEADING.sub(r"**\1**", line)) if is_text else line)
    rendered = "\n".join([*shown, "```"] if in_table else shown)
    return rendered if len(rendered) <= MESSAGE_CHARS else markdown
