"""Sessions as JSON documents of a home: read leniently, written strictly.

{"session_id", "model", "messages": [{"role", "content", "timestamp", "tool_calls"?, "reasoning"?,
"tool_call_id"?}]}; we also write "title" if a person has set one.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeGuard, cast

from msgspec import Struct
from msgspec.structs import replace

from agent_service.records.arguments import normalize
from agent_service.records.model import ToolCall, sent_call
from agent_service.records.search_query import text_of
from services.errors import InvalidArgument
from services.home.texts import decode_text
from services.validation import MAX_ID_CHARS

MAX_BYTES = 64 * 1024 * 1024
NO_RESULT = "[The result of this call was not kept.]"

_STARTED = re.compile(r"(\d{8}_\d{6})_")
_STRANGE = re.compile(r"[^A-Za-z0-9_.:-]+")
_EARLIEST, _LATEST = datetime(1970, 1, 2, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)


class TranscriptMessage(Struct, frozen=True):
    """A message in the form of the chat completions API."""

    content: dict[str, Any]
    reasoning: str
    created_at: datetime


class Transcript(Struct, frozen=True):
    """A session of a document."""

    session_id: str
    model: str
    title: str
    """Empty if the document has none."""
    messages: tuple[TranscriptMessage, ...]


def parse(data: bytes, name: str, fallback: datetime) -> Transcript:
    """Return the session in a document; InvalidArgument if it is invalid.

    `name` is used if it has no id, `fallback` if it has no time.
    """
    try:
        document = json.loads(decode_text(data, "replace"))
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"{name} is not JSON: {error}") from None
    if not _is_object(document) or not isinstance(document.get("messages"), list):
        raise InvalidArgument(f"{name} is no transcript: it has no list of messages")
    session_id = _clean(document.get("session_id")) or _clean(name)
    if not session_id:
        raise InvalidArgument("a transcript without an id, which has no name either")
    begun = _time(document.get("session_start")) or _started(session_id) or fallback
    messages = [one for one in _messages(document["messages"], begun) if one is not None]
    if not messages:
        raise InvalidArgument(f"{name} has no messages")
    return Transcript(
        session_id=session_id,
        model=_text(document.get("model")),
        title=" ".join(_text(document.get("title")).split())[:200],
        messages=tuple(_paired(messages)),
    )


def opening(session_id: str, model: str, title: str) -> str:
    """Return the beginning of a document; messages follow, separated by `SEPARATOR`."""
    head: dict[str, Any] = {"session_id": session_id, "model": model}
    if title:
        head["title"] = title
    return f'{json.dumps(head, ensure_ascii=False)[:-1]}, "messages": [\n'


SEPARATOR, CLOSING = ",\n", "\n]}\n"


def render(said: TranscriptMessage) -> str:
    """Return a message as it is written to a document."""
    content = said.content
    entry: dict[str, Any] = {
        "role": content["role"],
        "content": content["content"],
        "timestamp": said.created_at.isoformat(),
    }
    for key in ("tool_calls", "tool_call_id"):
        if content.get(key):
            entry[key] = content[key]
    if said.reasoning:
        entry["reasoning"] = said.reasoning
    return json.dumps(entry, ensure_ascii=False)


# ---- reading


def _messages(found: Sequence[Any], begun: datetime) -> Iterator[TranscriptMessage | None]:
    at = begun
    for entry in found:
        if not _is_object(entry):
            continue
        # A message without a time came right after the one before it.
        at = _time(entry.get("timestamp")) or at + timedelta(milliseconds=1)
        message = _message(entry)
        reasoning = _text(entry.get("reasoning") or entry.get("reasoning_content"))
        yield None if message is None else TranscriptMessage(message, reasoning, at)


def _message(entry: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the message as it is sent; None if it is not kept, such as an old system prompt."""
    role, text = entry.get("role"), _words(entry.get("content")).replace("\0", "")
    if role == "user":
        return {"role": "user", "content": text}
    if role == "tool":
        return {"role": "tool", "tool_call_id": _text(entry.get("tool_call_id")), "content": text}
    if role != "assistant":
        return None
    message: dict[str, Any] = {"role": "assistant", "content": text}
    given = entry.get("tool_calls")
    listed = cast("list[Any]", given) if isinstance(given, list) else []
    calls = [_call(one, number) for number, one in enumerate(listed) if _is_object(one)]
    if calls:
        message |= {"content": text or None, "tool_calls": calls}
    return message


def _words(content: Any) -> str:
    """Return the text of a message; pictures and the like are only mentioned."""
    if not isinstance(content, list):
        return text_of(content)
    parts = cast("list[Any]", content)
    return "\n".join(filter(None, (text_of([part]) or _lost(part) for part in parts)))


def _lost(part: Any) -> str:
    kind = _text(part.get("type")) if _is_object(part) else ""
    known = next((one for one in ("image", "audio", "video", "file") if one in kind), "")
    return f"[{known} that was not kept]" if known else ""


def _call(entry: Mapping[str, Any], number: int) -> dict[str, Any]:
    function = entry.get("function")
    called = function if _is_object(function) else entry
    arguments = called.get("arguments", "{}")
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    call_id = _text(entry.get("id")) or _text(entry.get("call_id")) or f"call_{number}"
    return sent_call(ToolCall(call_id, _text(called.get("name")), normalize(arguments)))


def _paired(said: Sequence[TranscriptMessage]) -> Iterator[TranscriptMessage]:
    """Yield the messages with exactly one result for each call, as providers require."""
    waiting: dict[str, TranscriptMessage] = {}
    for one in said:
        answered = one.content.get("tool_call_id", "")
        if one.content["role"] == "tool":
            if waiting.pop(answered, None) is not None:
                yield one
            continue
        yield from map(_unanswered, waiting, waiting.values())
        waiting = {call["id"]: one for call in one.content.get("tool_calls", ())}
        yield one
    yield from map(_unanswered, waiting, waiting.values())


def _unanswered(call_id: str, caller: TranscriptMessage) -> TranscriptMessage:
    result = {"role": "tool", "tool_call_id": call_id, "content": NO_RESULT}
    return replace(caller, content=result, reasoning="")


def _time(value: Any) -> datetime | None:
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value).astimezone(UTC)
        elif isinstance(value, int | float) and math.isfinite(value):
            # Some programs wrote milliseconds.
            moment = datetime.fromtimestamp(value / 1000 if value > 1e11 else value, UTC)
        else:
            return None
    except (ValueError, OverflowError, OSError):
        return None
    return moment if _EARLIEST < moment < _LATEST else None


def _started(session_id: str) -> datetime | None:
    found = _STARTED.match(session_id)
    if found is None:
        return None
    try:
        return datetime.strptime(found[1], "%Y%m%d_%H%M%S").astimezone()
    except ValueError:
        return None


def _clean(value: Any) -> str:
    return _STRANGE.sub("_", _text(value)).strip("_")[:MAX_ID_CHARS]


def _text(value: Any) -> str:
    return value.replace("\0", "") if isinstance(value, str) else ""


def _is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)
