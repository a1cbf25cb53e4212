"""Recognizes documents, and reads their text as lines."""

import asyncio
import hashlib
import json
from collections import OrderedDict
from pathlib import Path, PurePosixPath

from msgspec import Struct

from agent_service.security.scripts import ScriptFailed, answer_of

WORKER = Path(__file__).with_name("worker.py")
LIMIT_S = 45.0
AT_ONCE = 2
"""Documents read at a time, in all sessions, since each may take much memory."""
KEPT = 8
"""Documents whose text is cached, since models page through one document."""

TEXTUAL = "ipynb"
"""The kind that may also be shown as plain text."""

_KINDS = {
    ".pdf": "pdf",
    ".ipynb": "ipynb",
    ".docx": "docx",
    ".docm": "docx",
    ".xlsx": "xlsx",
    ".xlsm": "xlsx",
}
_STARTS = {"pdf": b"%PDF-", "docx": b"PK\x03\x04", "xlsx": b"PK\x03\x04", "ipynb": b""}
_PDF_WITHIN = 1024


class NoDocument(Exception):
    """The file cannot be read as the kind that its name says; the message says why."""


class Document(Struct, frozen=True):
    """The text of a document."""

    lines: list[str]
    cut: str
    """Why it is incomplete; empty if it is complete."""


class Documents:
    """Reads documents."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, bytes], Document] = OrderedDict()
        self._room = asyncio.Semaphore(AT_ONCE)

    async def read(self, kind: str, data: bytes) -> Document:
        key = kind, hashlib.sha256(data).digest()
        document = self._kept.get(key)
        if document is None:
            async with self._room:
                document = self._kept.get(key) or await _read(kind, data)
        self._kept[key] = document
        self._kept.move_to_end(key)
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return document


def named_kind(path: str) -> str:
    """The kind of document by file name; empty if it is none."""
    return _KINDS.get(PurePosixPath(path).suffix.lower(), "")


def kind_of(path: str, data: bytes) -> str:
    """The kind of document by name and content; empty if it is none."""
    kind = named_kind(path)
    start = _STARTS.get(kind, b"")
    is_one = start in data[:_PDF_WITHIN] if kind == "pdf" else data.startswith(start)
    return kind if is_one else ""


async def _read(kind: str, data: bytes) -> Document:
    try:
        answer = json.loads(await answer_of(WORKER, data, LIMIT_S, kind))
    except ScriptFailed as error:
        raise NoDocument(str(error)) from error
    if answer["problem"]:
        raise NoDocument(answer["problem"])
    return Document(answer["lines"], answer["cut"])
