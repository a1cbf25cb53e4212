"""Puts uploaded pictures and sound into requests, which stored messages only refer to."""

import asyncio
import base64
import logging
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from itertools import chain
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from agent_service.models.picture_sizes import MAX_PICTURE_BYTES, fit
from agent_service.records.model import Model, ModelEvent, ModelRequest, Purpose, encoded
from agent_service.records.model_errors import ModelError

MAX_PICTURES = 20
MAX_FITTED = 8
MAX_BYTES = 16_000_000
"""Limits of a request; some providers refuse 32 MB."""
_DROPPED_TOGETHER = 5
"""Old pictures are left out several at a time, so that what providers cache changes rarely."""

_TYPES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_REFERENCE = b'"url":"upload:'
_PART = re.compile(rb'{"type":"image_url","image_url":{"url":"upload:([\w.+/-]+):([0-9a-f]{64})"}}')
"""In a text, its quotes would be escaped."""
_UNSEEN = "[You cannot see this picture; vision_analyze can look at its file.]"
_OLD = "[This older picture is not shown any more; vision_analyze can look at its file.]"
_LARGE = "[This picture is too large to be shown.]"
_GONE = "[This picture is gone.]"

_ABOUT_PICTURES = ("image", "vision", "multimodal", "multi-modal", "modalit")
"""What errors of models without sight are about."""

_log = logging.getLogger(__name__)

Load = Callable[[Sequence[str]], Awaitable[Mapping[str, bytes]]]


def picture_type(data: bytes) -> str | None:
    """Return the MIME type of a picture that models can look at; None for other data."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _TYPES if data.startswith(start)), None)


def uploaded_url(sha256: str, mime_type: str) -> str:
    """Return how stored messages refer to a file; requests have its contents instead."""
    return f"upload:{mime_type}:{sha256}"


def picture_part(sha256: str, mime_type: str) -> dict[str, Any]:
    """Return the part of a message that is a picture."""
    return {"type": "image_url", "image_url": {"url": uploaded_url(sha256, mime_type)}}


class PictureModel(Struct, frozen=True):
    """A Model that gets the contents of uploaded files.

    Models of conversations that cannot see get a note in place of each picture.
    """

    inner: Model
    sees: Callable[[str], bool]
    load: Load
    """Returns the files that there are, by digest."""
    blind: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """Routes and models that have refused pictures."""
    fitted: dict[str, bytes] = field(default_factory=dict[str, bytes])
    """The last pictures that were made smaller, by the digest of the original."""

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelEvent]]:
        if any(_REFERENCE in message for message in request.messages):
            answer = aclosing(self._answer(request))
        else:
            answer = self.inner.stream(request)
        async with answer as events:
            yield events

    async def _answer(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        place, is_asked = (request.route, request.model), request.purpose is Purpose.TOOL
        if is_asked or (self.sees(request.model) and place not in self.blind):
            try:
                async with self.inner.stream(await self._shown(request)) as events:
                    async for event in events:
                        yield event
            except ModelError as error:
                if is_asked or not _is_refusal(error):
                    raise
                _log.warning("%s takes no pictures: %s", request.model, error)
                self.blind.add(place)
            else:
                return
        note = _noted(_UNSEEN)
        told = [_PART.sub(note, message) for message in request.messages]
        async with self.inner.stream(replace(request, messages=told)) as events:
            async for event in events:
                yield event

    async def _shown(self, request: ModelRequest) -> ModelRequest:
        found = map(_PART.findall, request.messages)
        digests = [digest.decode() for _, digest in chain.from_iterable(found)]
        loaded = await self.load([*dict.fromkeys(digests[-MAX_PICTURES:])])
        files = await asyncio.to_thread(self._fit, loaded)
        hidden = len(digests) - _count_shown(digests, files)
        # Encoding large pictures would block the event loop.
        filled = await asyncio.to_thread(_fill, request.messages, files, hidden)
        return replace(request, messages=filled)

    def _fit(self, files: Mapping[str, bytes]) -> dict[str, bytes]:
        large = [d for d, data in files.items() if len(data) > MAX_PICTURE_BYTES]
        for digest in large:
            if digest not in self.fitted and picture_type(files[digest]):
                self.fitted[digest] = fit(files[digest])
        for digest in [*self.fitted][:-MAX_FITTED]:
            del self.fitted[digest]
        return {digest: self.fitted.get(digest, data) for digest, data in files.items()}


def _is_refusal(error: ModelError) -> bool:
    is_final = error.status in (400, 404, 415, 422)
    return is_final and any(word in (error.detail or "").lower() for word in _ABOUT_PICTURES)


def _count_shown(digests: Sequence[str], files: Mapping[str, bytes]) -> int:
    count = size_bytes = 0
    for digest in reversed(digests[-MAX_PICTURES:]):
        size_bytes += len(files.get(digest, b""))
        if size_bytes > MAX_BYTES and count:
            break
        count += 1
    left = len(digests) - count
    return max(1, count - -left % _DROPPED_TOGETHER) if digests else 0


def _fill(messages: Sequence[bytes], files: Mapping[str, bytes], hidden: int) -> list[bytes]:
    number = 0

    def put(found: re.Match[bytes]) -> bytes:
        nonlocal number
        number += 1
        mime_type, digest = found[1], found[2].decode()
        if number <= hidden:
            return _noted(_OLD)
        if digest not in files:
            return _noted(_GONE)
        data = files[digest]
        if kind := picture_type(data):
            mime_type = kind.encode()
            if len(data) > MAX_PICTURE_BYTES:
                return _noted(_LARGE)
        url = b"data:" + mime_type + b";base64," + base64.b64encode(data)
        return b'{"type":"image_url","image_url":{"url":"%b"}}' % url

    return [_PART.sub(put, m) if _REFERENCE in m else m for m in messages]


def _noted(text: str) -> bytes:
    return encoded({"type": "text", "text": text})
