"""What speaks: OpenAI's speech API, ElevenLabs, or Piper in this process."""

import asyncio
from importlib.util import find_spec
from typing import Any, Protocol

from msgspec import Struct

from agent_service.config.senses import SpeechConfig, TranscriptionConfig
from agent_service.models.consult import PaidResult
from agent_service.models.media.elevenlabs import API_KEY, NAME, ElevenLabs
from agent_service.models.media.local import OPUS, Piper
from agent_service.models.media.openai_sdk import OpenAIServer
from agent_service.records.usage import Usage

Lack = tuple[tuple[str, ...], str]
"""Settings of which one is missing, or another reason for a tool to be off."""
SETTINGS = (API_KEY, "OPENAI_API_KEY", "tts.piper.voice")
NOT_INSTALLED = "hermes-services[local-speech] is not installed"


class SpeechModel(Protocol):
    """Speaks texts."""

    @property
    def model(self) -> str: ...

    @property
    def provider(self) -> str: ...

    async def speak(self, text: str, voice: str, suffix: str) -> PaidResult:
        """Sound as OPUS or MP3; an empty voice is the configured one. Raises MediaFailed."""
        ...


def usage_of(text: str) -> Usage:
    """What speaking a text uses."""
    return Usage(prompt_tokens=len(text))


class OpenAISpeech(Struct, frozen=True):
    """OpenAI, or another server with its speech API."""

    server: OpenAIServer
    model: str
    voice: str

    @property
    def provider(self) -> str:
        return self.server.provider

    async def speak(self, text: str, voice: str, suffix: str) -> PaidResult:
        made = await self.server.call(
            lambda client: client.audio.speech.create(
                model=self.model,
                input=text,
                voice=voice or self.voice,
                response_format="opus" if suffix == OPUS else "mp3",
            )
        )
        return PaidResult(made.content, usage_of(text))


class ElevenLabsSpeech(Struct, frozen=True):
    """ElevenLabs."""

    account: ElevenLabs
    model: str
    voice: str
    provider: str = NAME

    async def speak(self, text: str, voice: str, suffix: str) -> PaidResult:
        async def convert(client: Any) -> bytes:
            sound = client.text_to_speech.convert(
                voice or self.voice,
                text=text,
                model_id=self.model,
                output_format="opus_48000_32" if suffix == OPUS else "mp3_44100_64",
            )
            return b"".join([piece async for piece in sound])

        return PaidResult(await self.account.call(convert), usage_of(text))


class PiperSpeech:
    """Piper in this process, which speaks one text at a time."""

    model = provider = "piper"

    def __init__(self, path: str) -> None:
        self._piper = Piper(path)
        self._speaking = asyncio.Lock()

    async def speak(self, text: str, voice: str, suffix: str) -> PaidResult:
        async with self._speaking:
            return PaidResult(await asyncio.to_thread(self._piper.speak, text, suffix), Usage())


def speaker_of(config: SpeechConfig, openai: OpenAIServer | None) -> SpeechModel | None:
    """The configured speaker; None if none is set up."""
    made: dict[str, SpeechModel] = {}
    if config.elevenlabs_api_key.get_secret_value() and find_spec("elevenlabs"):
        account, model = config.elevenlabs, config.elevenlabs_model
        made["elevenlabs"] = ElevenLabsSpeech(account, model, config.elevenlabs_voice)
    if openai is not None:
        made["openai"] = OpenAISpeech(openai, config.openai_model, config.openai_voice)
    if config.piper_voice and all(map(find_spec, ("piper", "av"))):
        made["piper"] = PiperSpeech(config.piper_voice)
    return made.get(config.provider) or next(iter(made.values()), None)


def why_silent(config: SpeechConfig) -> Lack:
    """What is missing for a speaker."""
    if config.piper_voice:
        return (), NOT_INSTALLED
    if config.elevenlabs_api_key.get_secret_value():
        return (), "hermes-services[media] is not installed"
    return SETTINGS[::-1] if config.provider == "piper" else SETTINGS, ""


def why_deaf(config: TranscriptionConfig, settings: tuple[str, ...]) -> Lack:
    """What is missing for a model that listens, which needs one of these settings."""
    if not config.enabled:
        return (), "stt.enabled is false; type: hermes config set stt.enabled true"
    return ((), NOT_INSTALLED) if config.provider == "local" else (settings, "")
