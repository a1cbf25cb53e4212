"""Reads the files of a message before the model gets it: looks, listens, and shows short texts."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from agent_service.models.consult import Consult, NoAnswer
from agent_service.models.fallback import Route
from agent_service.models.pictures import picture_part, picture_type
from agent_service.records.commands import Consulted, Fact, FilesRead
from agent_service.records.errors import BudgetReached, ModelNotConfigured
from agent_service.records.model import Model, Purpose, Unwatched, usage_of
from agent_service.records.model_errors import ModelError
from agent_service.records.requests import FileKind, MessageFile
from agent_service.records.turn_state import LiveTurn
from agent_service.tools.picture_viewer import MessageParts, PictureViewer

LIMIT_S = 120.0
"""How long a model may look at a picture, or listen."""
SHOWN_BYTES = 20_000
"""Texts up to this length are shown in the message."""
MAX_OPENED_BYTES = 20_000_000
"""Larger files are only named."""
HEARD = frozenset({FileKind.VOICE, FileKind.AUDIO})
_TEXT_TYPES = ("text/", "application/json", "application/xml", "application/x-yaml")

_VIDEO = (
    "You cannot see videos: if the sandbox has ffmpeg, make pictures of it and look at them with "
    "vision_analyze; else say so."
)

NO_TRANSCRIPTION = (
    "Voice messages are not understood yet: set GROQ_API_KEY, ELEVENLABS_API_KEY or "
    "OPENAI_API_KEY, or auxiliary.transcription.model in config.yaml."
)


class FileReader(Struct, frozen=True):
    """Reads files of messages."""

    load: Callable[[str], Awaitable[bytes | None]]
    sight: PictureViewer
    consult: Consult
    transcription: Route

    async def run(self, turn: LiveTurn, model: Model, own: str) -> AsyncGenerator[tuple[Fact, ...]]:
        found = MessageParts()
        for file in turn.request.files:
            paid = await self._read(turn, file, _Help(self.consult, model), found)
            if paid is not None:
                yield (paid,)
        content = found.content(own)
        yield (FilesRead(content, tuple(found.notices)),)

    async def _read(
        self, turn: LiveTurn, file: MessageFile, help_: "_Help", found: MessageParts
    ) -> Consulted | None:
        if file.kind in HEARD:
            await self._listen(file, help_, found)
            return help_.consulted
        is_opened = file.kind is not FileKind.VIDEO and file.length_bytes <= MAX_OPENED_BYTES
        data = await self.load(file.sha256) if is_opened else b""
        if data is None:
            found.add(f"[The file {file.path} is gone.]")
        elif (mime_type := picture_type(data)) is not None:
            await self.sight.look(turn.model, file, mime_type, help_.ask, found)
        elif is_opened and _is_short_text(file, data):
            shown = await self.sight.screened(data.decode(errors="replace"), found)
            found.add(f"[The file {file.path}:]\n{shown}")
        elif file.kind is FileKind.VIDEO:
            found.add(f"[{_described(file)} {_VIDEO}]")
        else:
            found.add(f"[{_described(file)}]")
        return help_.consulted

    async def _listen(self, file: MessageFile, help_: "_Help", found: MessageParts) -> None:
        what = "voice message" if file.kind is FileKind.VOICE else "sound"
        if not self.transcription.model:
            found.notices[NO_TRANSCRIPTION] = None
            found.add(f"[The {what} {file.path}. You cannot hear it.]")
            return
        # The wire of transcripts takes the file from there.
        sound = picture_part(file.sha256, file.mime_type or "audio/ogg")
        try:
            text = await help_.ask([{"role": "user", "content": [sound]}], self.transcription)
        except NoAnswer as error:
            found.notices[f"A {what} was not understood: {error}"] = None
            found.add(f"[The {what} {file.path}. You cannot hear it.]")
            return
        if not file.is_own_voice:
            text = await self.sight.screened(text, found)
        found.add(f"[The {what} {file.path} says:]\n{text}")


class _Help:
    def __init__(self, consult: Consult, model: Model) -> None:
        self._consult = consult
        self._model = model
        self.consulted: Consulted | None = None

    async def ask(self, messages: Sequence[Mapping[str, Any]], route: Route) -> str:
        request = await self._consult.request(messages, route, Purpose.TOOL)
        call = Unwatched(self._model, request)
        try:
            async with asyncio.timeout(LIMIT_S):
                text = (await call.answer()).text.strip()
        except TimeoutError:
            raise NoAnswer("the model's answer took too long") from None
        except (ModelError, ModelNotConfigured, BudgetReached) as error:
            raise NoAnswer(str(error)) from error
        finally:
            if call.paid:
                self.consulted = Consulted("", call.paid[-1].model, usage_of(call.paid))
        if not text:
            raise NoAnswer("the model's answer is empty")
        return text


def skip_files(files: Sequence[MessageFile], own: str) -> FilesRead:
    """Return the message of a turn that was stopped before its files were read."""
    found = MessageParts()
    for file in files:
        found.add(f"[{_described(file)} It was not read.]")
    return FilesRead(found.content(own))


def _described(file: MessageFile) -> str:
    type_ = f"{file.mime_type}, " if file.mime_type else ""
    return f"The file {file.path} ({type_}{file.length_bytes:,} bytes)."


def _is_short_text(file: MessageFile, data: bytes) -> bool:
    if len(data) > SHOWN_BYTES or b"\0" in data:
        return False
    if file.mime_type and not file.mime_type.startswith((*_TEXT_TYPES, "application/octet")):
        return False
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
