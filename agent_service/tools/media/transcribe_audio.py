"""The `transcribe_audio` tool."""

import asyncio

from pydantic import Field

from agent_service.models.consult import NoAnswer
from agent_service.models.data_urls import data_url
from agent_service.models.fallback import Route
from agent_service.tools.base import (
    Effect,
    ToolArguments,
    ToolContext,
    ToolFailed,
    ToolResult,
    UsualTool,
)
from agent_service.tools.texts import same_file
from services.home.media_types import media_type

MAX_BYTES = 25_000_000
"""What OpenAI and Groq take."""
LIMIT_S = 300.0
SETTINGS = (
    *("GROQ_API_KEY", "ELEVENLABS_API_KEY", "OPENAI_API_KEY", "auxiliary.transcription.model"),
)


class TranscribeAudioArguments(ToolArguments):
    """Writes down what is said in a sound file.

    It supports MP3, M4A, WAV, OGG, FLAC and WebM of up to 25 MB. Voice messages of the user are
    written down without it.
    """

    audio: str = Field(min_length=1, description="The file of the sandbox.")


class TranscribeAudio(UsualTool[TranscribeAudioArguments]):
    """Writes down sound."""

    name = "transcribe_audio"
    toolset = "transcription"
    arguments = TranscribeAudioArguments
    usual_effect = Effect.PURE

    def __init__(self, route: Route) -> None:
        self._route = route

    def writes(self, arguments: TranscribeAudioArguments) -> frozenset[str]:
        """Wait for calls that change the sound."""
        return frozenset({same_file(arguments.audio)})

    async def run(self, arguments: TranscribeAudioArguments, context: ToolContext) -> ToolResult:
        data = await context.files.read(arguments.audio, max_bytes=MAX_BYTES)
        if not data:
            raise ToolFailed(f"{arguments.audio} is empty.")
        kind = media_type(arguments.audio, "audio/ogg")
        url = await asyncio.to_thread(data_url, kind, data)
        sound = {"type": "image_url", "image_url": {"url": url}}
        messages = [{"role": "user", "content": [sound]}]
        try:
            return ToolResult(await context.ask(messages, self._route, time_limit_s=LIMIT_S))
        except NoAnswer as error:
            raise ToolFailed(f"The sound was not written down: {error}") from error
