"""Converts the messages that signal-cli receives to events."""

import json
import logging
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct, field

from gateway_service.messages import FileKind, MessageEvent, Quote, RemoteFile, Source, find_kind
from services.validation import convert

_log = logging.getLogger(__name__)

GROUP = "group."
"""Begins the chat id of a group."""
_MENTION = "\ufffc"
"""Stands in the text for somebody who is mentioned."""


class _Mention(Struct, frozen=True):
    start: int = 0
    number: str | None = None
    uuid: str | None = None
    name: str | None = None


class _Quoted(Struct, frozen=True):
    id: int
    author: str | None = None
    text: str | None = None


class _File(Struct, frozen=True):
    id: str
    content_type: str | None = field(default=None, name="contentType")
    filename: str | None = None
    size: int | None = None


class _Group(Struct, frozen=True):
    id: str = field(name="groupId")


class _Data(Struct, frozen=True):
    timestamp: int
    message: str | None = None
    mentions: tuple[_Mention, ...] = ()
    quote: _Quoted | None = None
    attachments: tuple[_File, ...] = ()
    group: _Group | None = field(default=None, name="groupInfo")


class _Edit(Struct, frozen=True):
    target: int = field(name="targetSentTimestamp")
    data: _Data = field(name="dataMessage")


class _Envelope(Struct, frozen=True):
    number: str | None = field(default=None, name="sourceNumber")
    uuid: str | None = field(default=None, name="sourceUuid")
    name: str | None = field(default=None, name="sourceName")
    data: _Data | None = field(default=None, name="dataMessage")
    edit: _Edit | None = field(default=None, name="editMessage")


def read_event(text: str, account: str) -> MessageEvent | None:
    """Return a message if it is for us; None also for what cannot be read."""
    try:
        raw = json.loads(text)
        envelope = convert(raw.get("envelope", {}), _Envelope)
    except (ValueError, AttributeError, msgspec.ValidationError) as error:
        _log.error("an event of Signal cannot be read and is passed over: %s", error)
        return None
    data = envelope.edit.data if envelope.edit else envelope.data
    sender = envelope.number or envelope.uuid
    if data is None or not sender or sender == account:
        return None
    if not (data.message or data.attachments):
        return None  # a reaction, or somebody has joined
    if data.group and not _is_addressed(data, account):
        return None
    source = Source(
        platform="signal",
        chat_id=f"{GROUP}{data.group.id}" if data.group else sender,
        user_id=sender,
        user_name=envelope.name or sender,
        chat_type="group" if data.group else "dm",
    )
    return MessageEvent(
        f"{account}:{sender}:{data.timestamp}",
        source,
        _named(data.message or "", data.mentions, account),
        replies_to=str(data.quote.id) if data.quote else "",
        quotes=_quotes(data.quote, (sender, account)),
        files=tuple(_file(each, source.chat_id) for each in data.attachments),
        message_id=str(data.timestamp),
        edits=str(envelope.edit.target) if envelope.edit else "",
    )


def _is_addressed(data: _Data, account: str) -> bool:
    is_answer = data.quote is not None and data.quote.author == account
    is_mention = any(each.number == account for each in data.mentions)
    return is_answer or is_mention or (data.message or "").startswith("/")


def _named(text: str, mentions: Iterable[_Mention], account: str) -> str:
    """Return the text with names in place of mentions, and none in place of ours."""
    for each in sorted(mentions, key=lambda one: one.start):
        known = each.name or each.number or each.uuid or ""
        text = text.replace(_MENTION, "" if each.number == account else f"@{known}", 1)
    return text.strip()


def _quotes(quote: _Quoted | None, known: tuple[str, str]) -> tuple[Quote, ...]:
    """Return the message that is replied to, unless it is ours or the sender's own."""
    if quote is None or not quote.text or quote.author in known:
        return ()
    return (Quote(quote.text, quote.author or "", is_forwarded=False),)


def _file(file: _File, chat_id: str) -> RemoteFile:
    mime = file.content_type or ""
    found = find_kind(mime)
    if found is FileKind.AUDIO and not file.filename:
        found = FileKind.VOICE
    # Nothing says whether it was forwarded.
    name, size = file.filename or "", file.size or 0
    return RemoteFile(found, f"{chat_id}/{file.id}", name, mime, size, is_forwarded=True)


def address(chat_id: str) -> dict[str, Any]:
    """Return the parameters that name a chat."""
    if chat_id.startswith(GROUP):
        return {"groupId": chat_id.removeprefix(GROUP)}
    return {"recipient": [chat_id]}
