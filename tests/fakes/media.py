"""Providers of speech, transcripts and pictures for tests, as they publish their APIs.

OpenAI's and OpenRouter's are below `/v1`, ElevenLabs' below `/eleven`, and fal's queue is at the
root, as its SDK wants it. What they say is real speech, and what they hear is really recognized.
"""

import asyncio
import base64
import json
import struct
import zlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.fakes.web import Site, site
from tests.support.sound import spoken, understood

KEY = "media-key-for-tests"
FORMATS = {"opus": "ogg", "opus_48000_32": "ogg", "mp3": "mp3", "mp3_44100_64": "mp3"}
VOICES = {"alloy", "onyx", "JBFqnCBsd6RMkjVDRZzb"}


def picture(red: int) -> bytes:
    """A PNG of one pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
    pixel = chunk(b"IDAT", zlib.compress(bytes((0, red, 0, 0))))
    return b"\x89PNG\r\n\x1a\n" + head + pixel + chunk(b"IEND", b"")


MADE = picture(255)


@dataclass(slots=True)
class FakeMedia:
    """The providers' state."""

    at: Site | None = None
    asked: list[tuple[str, Mapping[str, Any]]] = field(
        default_factory=list[tuple[str, Mapping[str, Any]]]
    )
    """The paths and what they were asked, in order; files are their contents."""
    failure: tuple[int, str] | None = None
    """The status and message of all answers."""
    hold: asyncio.Event | None = None
    """What answers wait for."""
    answer: bytes = MADE
    """The picture that is made."""

    def url(self, path: str, scheme: str = "http") -> str:
        """The address of a path."""
        assert self.at is not None
        return self.at.url("localhost" if scheme == "https" else "127.0.0.1", path, scheme)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer a request."""
        given = await _given(request)
        if request.method == "POST":
            self.asked.append((request.path, given))
        if not _is_signed(request):
            return _error(request, 401, f"Incorrect key: {KEY}")
        if self.failure is not None:
            return _error(request, *self.failure)
        if self.hold is not None:
            await self.hold.wait()
        match request.path.strip("/").split("/"):
            case ["v1", *place]:
                return await self._openai(request, place, given)
            case ["eleven", "v1", "text-to-speech", voice]:
                told = {"response_format": request.query["output_format"]}
                return await _speech(request, given["text"], voice, told)
            case ["eleven", "v1", "speech-to-text"]:
                return await _scribe(given)
            case _:
                return self._queue(request)

    async def _openai(
        self, request: web.Request, place: Sequence[str], given: Mapping[str, Any]
    ) -> web.StreamResponse:
        match place:
            case ["audio", "speech"]:
                return await _speech(request, given["input"], given["voice"], given)
            case ["audio", "transcriptions"]:
                usage = {"type": "duration", "seconds": 3}
                said = {"text": await understood(given["file"]), "usage": usage}
                return web.json_response(said)
            case ["images", "generations" | "edits"]:
                return self._picture(given)
            case _:
                return self._answer(given)

    def _picture(self, given: Mapping[str, Any]) -> web.Response:
        assert given["model"] == "gpt-image-2"
        assert given["size"] in ("1536x1024", "1024x1024", "1024x1536")
        usage = {
            "input_tokens": 20,
            "output_tokens": 1_500,
            "total_tokens": 1_520,
            "input_tokens_details": {"image_tokens": 0, "text_tokens": 20},
        }
        data = [{"b64_json": base64.b64encode(self.answer).decode()}]
        return web.json_response({"created": 1, "data": data, "usage": usage})

    def _answer(self, given: Mapping[str, Any]) -> web.Response:
        assert "image" in given["modalities"]
        url = f"data:image/png;base64,{base64.b64encode(self.answer).decode()}"
        message = {
            "role": "assistant",
            "content": "",
            "images": [{"type": "image_url", "image_url": {"url": url}}],
        }
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 9, "completion_tokens": 1_290, "cost": 0.04}
        said = {"id": "gen-1", "object": "chat.completion", "created": 1, "choices": [choice]}
        return web.json_response(
            {**said, "model": given["model"], "usage": {**usage, "cost": 0.04}}
        )

    def _queue(self, request: web.Request) -> web.Response:
        here = self.url("/requests/1", "https")
        if request.method == "POST":
            urls = {"status_url": f"{here}/status", "cancel_url": f"{here}/cancel"}
            return web.json_response({"request_id": "1", "response_url": here, **urls})
        if request.path.endswith("/status"):
            return web.json_response({"status": "COMPLETED", "logs": [], "metrics": {}})
        url = f"data:image/png;base64,{base64.b64encode(self.answer).decode()}"
        found = {"url": url, "content_type": "image/png", "width": 1, "height": 1}
        return web.json_response({"images": [found], "description": ""})


async def _given(request: web.Request) -> Mapping[str, Any]:
    if request.content_type == "multipart/form-data":
        form = await request.post()
        files = {n: f.file.read() for n, f in form.items() if isinstance(f, web.FileField)}
        return {**{n: v for n, v in form.items() if isinstance(v, str)}, **files}
    text = await request.text()
    return json.loads(text) if text else {}


def _is_signed(request: web.Request) -> bool:
    sent = request.headers
    return KEY in (
        sent.get("xi-api-key"),
        sent.get("Authorization", "").removeprefix("Bearer ").removeprefix("Key "),
    )


def _error(request: web.Request, status: int, message: str) -> web.Response:
    if request.path.startswith("/v1/"):
        body: dict[str, Any] = {"error": {"message": message, "type": "invalid_request_error"}}
    elif request.path.startswith("/eleven/"):
        body = {"detail": {"status": "refused", "message": message}}
    else:
        body = {"detail": message}
    return web.json_response(body, status=status)


async def _speech(
    request: web.Request, text: str, voice: str, told: Mapping[str, Any]
) -> web.Response:
    if voice not in VOICES:
        return _error(request, 400, f"no voice {voice}")
    container = FORMATS[told["response_format"]]
    return web.Response(body=await spoken(text, container), content_type="audio/" + container)


async def _scribe(given: Mapping[str, Any]) -> web.Response:
    assert given["model_id"] == "scribe_v2"
    text = await understood(given["file"])
    words = [
        {"text": word, "start": n, "end": n + 1, "type": "word", "logprob": 0.0}
        for n, word in enumerate(text.split())
    ]
    told = {"language_code": "eng", "language_probability": 1.0, "text": text, "words": words}
    return web.json_response(told)


@asynccontextmanager
async def fake_media(**options: Any) -> AsyncGenerator[FakeMedia]:
    """Running providers."""
    fake = FakeMedia()
    async with site(fake.handle, **options) as fake.at:
        yield fake
