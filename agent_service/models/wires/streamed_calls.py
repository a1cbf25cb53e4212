"""Assembles tool calls from the pieces that chat completions servers stream."""

import json
from typing import Any
from uuid import uuid4

from msgspec import Struct, field

from agent_service.models.wires.wire import Json, MalformedChunk, text_of, well_formed
from agent_service.records.model import ToolCall
from services.validation import object_of

_USUAL = frozenset({"index", "id", "type", "function", "name", "arguments"})
_DECODER = json.JSONDecoder(strict=False)
_PLACEHOLDERS = frozenset({"", "{}", "null"})
"""Arguments that some servers send before the real ones, or with a call that is none."""


class _Call(Struct):
    index: object
    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list[str])
    extra: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def arguments(self) -> str:
        """All pieces, or the last one if each is longer than the one before it."""
        joined, last = "".join(self.pieces), self.pieces[-2:]
        is_longer = len(last) > 1 and last[1].startswith(last[0])
        return last[1] if is_longer and _values(last[1]) and not _values(joined) else joined


class StreamedCalls:
    """The tool calls of one answer."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []

    def add(self, delta: Json) -> None:
        found = object_of(delta.get("function")) or delta
        index, call_id = delta.get("index"), text_of(delta.get("id"))
        name, piece = text_of(found.get("name")), found.get("arguments")
        call = self._find(index, call_id)
        if call is None or _begins_another(call, index, call_id, name):
            call = _Call(index)
            self._calls.append(call)
        call.id = call.id or call_id
        if name and not (call.name and call.pieces):
            # It may come in pieces, or longer each time.
            call.name = name if name.startswith(call.name) else call.name + name
        call.extra |= {
            key: value for key, value in delta.items() if key not in _USUAL and value is not None
        }
        if isinstance(piece, dict):
            piece = json.dumps(piece, ensure_ascii=False)
        if text := text_of(piece):
            call.pieces.append(text)

    def finish(self, has_text: bool) -> tuple[ToolCall, ...]:
        """Return the calls; a nameless empty one counts only if the answer has nothing else."""
        has_more = has_text or any(call.name for call in self._calls)
        calls: list[ToolCall] = []
        seen: set[str] = set()
        for call in self._calls:
            if not call.name:
                if has_more and call.arguments.strip() in _PLACEHOLDERS:
                    continue
                raise MalformedChunk("a tool call without a name")
            for arguments in _split(call.arguments):
                call_id = call.id if call.id and call.id not in seen else f"call_{uuid4().hex}"
                seen.add(call_id)
                name = well_formed(call.name)
                calls.append(ToolCall(call_id, name, well_formed(arguments), call.extra))
        return tuple(calls)

    def _find(self, index: object, call_id: str) -> _Call | None:
        near = [
            call
            for call in reversed(self._calls)
            if index is None or call.index is None or call.index == index
        ]
        same = (call for call in near if call_id and call.id == call_id)
        return next(same, near[0] if near else None)


def _begins_another(call: _Call, index: object, call_id: str, name: str) -> bool:
    """Whether a delta begins a new call although its index, if any, is that of `call`.

    Servers reuse indexes and ids, omit them, make a new id for each piece, or repeat the name.
    """
    if not name or (call_id and call_id == call.id):
        return False
    is_whole = bool(_values(call.arguments))
    if call_id and call.id:
        return name != call.name or is_whole or not call.pieces
    return is_whole or (index is None and bool(call.name) and name != call.name)


def _split(arguments: str) -> list[str]:
    """The arguments of each call: several objects are several calls, but each counts once."""
    values = _values(arguments)
    if len(values) < 2:
        return [arguments or "{}"]
    return list(dict.fromkeys(one for one in values if one not in _PLACEHOLDERS)) or ["{}"]


def _values(text: str) -> list[str]:
    found: list[str] = []
    while text := text.strip():
        try:
            end: int = _DECODER.raw_decode(text)[1]
        except (ValueError, RecursionError):
            return []
        found.append(text[:end])
        text = text[end:]
    return found
