"""Converts the messages that signal-cli receives to events."""

import json
from typing import Any

from gateway_service.messages import (
    Event,
    FileKind,
    MessageEvent,
    Quote,
    Reaction,
    RemoteFile,
    Source,
    find_kind,
)
from gateway_service.platforms.base import Json, passing_over

GROUP = "group."
"""Begins the chat id of a group."""
_MENTION = "\ufffc"
"""Stands in the text for somebody who is mentioned."""
_WORDLESS = ("contacts", "pollCreate", "sticker")
"""Messages without words and files."""


def read_event(text: str, account: str) -> Event | None:
    """Return a message if it is for us, or a reaction; None also for what cannot be read."""
    with passing_over("an event of signal"):
        return _read(json.loads(text).get("envelope", {}), account)
    return None


def _read(envelope: Json, account: str) -> Event | None:
    edit = envelope.get("editMessage")
    data: Json | None = edit["dataMessage"] if edit else envelope.get("dataMessage")
    sender = envelope.get("sourceNumber") or envelope.get("sourceUuid")
    if data is None or not sender or sender == account:
        return None
    group, quote = data.get("groupInfo"), data.get("quote")
    source = Source(
        platform="signal",
        chat_id=f"{GROUP}{group['groupId']}" if group else sender,
        user_id=sender,
        user_name=envelope.get("sourceName") or sender,
        chat_type="group" if group else "dm",
    )
    event_id = f"{account}:{sender}:{data['timestamp']}"
    if reaction := data.get("reaction"):
        return _read_reaction(reaction, event_id, source, account)
    files, text = data.get("attachments") or (), data.get("message") or ""
    if not (text or files or any(data.get(each) for each in _WORDLESS)):
        return None  # somebody has joined, for example
    mentions = sorted(data.get("mentions") or (), key=lambda each: each.get("start") or 0)
    is_mention = any(each.get("number") == account for each in mentions)
    is_answer = bool(quote) and quote.get("author") == account
    if group and not (is_mention or is_answer or text.startswith("/")):
        return None
    for each in mentions:
        known = each.get("name") or each.get("number") or each.get("uuid") or ""
        text = text.replace(_MENTION, "" if each.get("number") == account else f"@{known}", 1)
    return MessageEvent(
        event_id,
        source,
        text.strip(),
        replies_to=str(quote.get("id") or "") if quote else "",
        quotes=_quotes(quote, (sender, account)),
        files=tuple(_file(each, source.chat_id) for each in files if each.get("id")),
        message_id=str(data["timestamp"]),
        edits=str(edit["targetSentTimestamp"]) if edit else "",
    )


def _read_reaction(given: Json, event_id: str, source: Source, account: str) -> Reaction | None:
    """Return an emoji that somebody put on a message of ours."""
    authors = given.get("targetAuthorNumber"), given.get("targetAuthor")
    if given.get("isRemove") or account not in authors:
        return None
    return Reaction(event_id, source, str(given["targetSentTimestamp"]), given["emoji"])


def _quotes(quote: Json | None, known: tuple[str, str]) -> tuple[Quote, ...]:
    """Return the message that is replied to, unless it is ours or the sender's own."""
    if not quote or not quote.get("text") or quote.get("author") in known:
        return ()
    return (Quote(quote["text"], quote.get("author") or "", is_forwarded=False),)


def _file(file: Json, chat_id: str) -> RemoteFile:
    mime, name = file.get("contentType") or "", file.get("filename") or ""
    found = find_kind(mime)
    if found is FileKind.AUDIO and not name:
        found = FileKind.VOICE
    # Nothing says whether it was forwarded.
    about = name, mime, file.get("size") or 0
    return RemoteFile(found, f"{chat_id}/{file['id']}", *about, is_forwarded=True)


def address(chat_id: str) -> dict[str, Any]:
    """Return the parameters that name a chat."""
    if chat_id.startswith(GROUP):
        return {"groupId": chat_id.removeprefix(GROUP)}
    return {"recipient": [chat_id]}
