"""The wire format of OpenAI's audio transcriptions, which several servers of Whisper speak."""

import base64
import json
import secrets
from collections.abc import Mapping

from agent_service.models.data_urls import DATA_URL
from agent_service.models.media.prices import TOKENS_PER_S
from agent_service.models.wires.wire import (
    Corrections,
    Dialect,
    Json,
    reported_error,
    text_of,
    tokens,
    well_formed,
)
from agent_service.records.model import ModelMessage, ModelRequest
from agent_service.records.usage import Usage
from services.validation import object_of

_SUFFIXES = {
    "audio/mpeg": "mp3",
    "audio/mp4": "m4a",
    "audio/x-m4a": "m4a",
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/webm": "webm",
    "audio/flac": "flac",
}
"""Servers tell formats by the file's name."""
SILENCE = "[Nothing is said.]"


def sound_of(request: ModelRequest) -> tuple[str, bytes]:
    """The MIME type and data of the sound in a request's only message."""
    message = json.loads(request.messages[-1])
    found = DATA_URL.fullmatch(message["content"][0].get("image_url", {}).get("url", ""))
    mime_type, data = found.groups() if found else ("audio/ogg", "")
    return mime_type, base64.b64decode(data)


class TranscriptionReading:
    """One transcript."""

    def __init__(self) -> None:
        self.finish_reason = ""
        self._text = ""
        self._usage: Usage | None = None

    def add(self, chunk: Json) -> tuple[str, str]:
        self.finish_reason = "stop"
        self._text = well_formed(text_of(chunk.get("text"))).strip() or SILENCE
        usage = object_of(chunk.get("usage"))
        heard = tokens(usage.get("input_tokens"))
        seconds = usage.get("seconds")
        if not heard and isinstance(seconds, int | float):
            heard = round(seconds * TOKENS_PER_S)
        if heard:
            said = tokens(usage.get("output_tokens"))
            self._usage = Usage(prompt_tokens=heard, completion_tokens=said)
        return self._text, ""

    def failure(self, chunk: Json) -> object:
        return None if "text" in chunk else reported_error(chunk)

    @property
    def ended(self) -> bool:
        return bool(self.finish_reason)

    def message(self, model: str, provider: str) -> ModelMessage:
        return ModelMessage(self._text, "", (), self._usage, "stop", model, provider)


class Transcriptions:
    """The wire format of transcriptions: one file, whose text comes back."""

    key_header = "Authorization"
    path = "/audio/transcriptions"
    corrections: Corrections = ()

    def __init__(self) -> None:
        self._boundary = secrets.token_hex(16)

    def headers(self) -> Mapping[str, str]:
        return {"Content-Type": f"multipart/form-data; boundary={self._boundary}"}

    def body(self, request: ModelRequest, dialect: Dialect) -> bytes:
        mime_type, sound = sound_of(request)
        line = f"--{self._boundary}\r\nContent-Disposition: form-data; name="
        name = f"sound.{_SUFFIXES.get(mime_type, 'ogg')}"
        fields = f'{line}"model"\r\n\r\n{request.model}\r\n'
        file = f'{line}"file"; filename="{name}"\r\nContent-Type: {mime_type}\r\n\r\n'
        return b"".join(
            [fields.encode(), file.encode(), sound, f"\r\n--{self._boundary}--\r\n".encode()]
        )

    def reading(self) -> TranscriptionReading:
        return TranscriptionReading()
