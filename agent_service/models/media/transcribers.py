"""Models that write down sound without OpenAI's API: ElevenLabs, and Whisper in this process."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Self

from agent_service.models.media.elevenlabs import ElevenLabs
from agent_service.models.media.failures import MediaFailed
from agent_service.models.media.local import Whisper
from agent_service.models.media.prices import TOKENS_PER_S
from agent_service.models.wires.transcriptions import SILENCE, sound_of
from agent_service.records.model import ModelEvent, ModelMessage, ModelRequest
from agent_service.records.model_errors import ModelError, ModelErrorKind
from agent_service.records.usage import Usage

Listen = Callable[[str, bytes], Awaitable[tuple[str, float]]]
"""Listens with a model; returns what is said and the sound's seconds. Raises MediaFailed."""


class Transcriber:
    """A Model that answers a sound with what is said in it."""

    def __init__(self, provider: str, listen: Listen, *, is_local: bool) -> None:
        self.is_local = is_local
        self._provider = provider
        self._listen = listen

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        pass

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelEvent]]:
        yield self._answer(request)

    async def _answer(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        _, sound = await asyncio.to_thread(sound_of, request)
        try:
            text, seconds = await self._listen(request.model, sound)
        except MediaFailed as error:
            raise ModelError(ModelErrorKind.CONNECTION, str(error)) from None
        text = text.strip() or SILENCE
        usage = Usage(prompt_tokens=round(seconds * TOKENS_PER_S))
        yield ModelMessage(text, "", (), usage, "stop", request.model, self._provider)


def elevenlabs_transcriber(account: ElevenLabs) -> Transcriber:
    """ElevenLabs' speech to text."""

    async def listen(model: str, sound: bytes) -> tuple[str, float]:
        found = await account.call(
            lambda client: client.speech_to_text.convert(
                model_id=model, file=("sound", sound), tag_audio_events=False
            )
        )
        return found.text, max((word.end or 0.0 for word in found.words), default=0.0)

    return Transcriber("elevenlabs", listen, is_local=False)


def local_transcriber() -> Transcriber:
    """Whisper in this process, which listens to one sound at a time."""
    whisper, listening = Whisper(), asyncio.Lock()

    async def listen(model: str, sound: bytes) -> tuple[str, float]:
        async with listening:
            return await asyncio.to_thread(whisper.transcribe, model, sound)

    return Transcriber("local", listen, is_local=True)
