"""Settings of speech, sound, pictures and Home Assistant: what the tools of each use."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, SecretStr

from agent_service.config.endpoints import AuxiliaryModel, checked_url
from agent_service.models.media.elevenlabs import ElevenLabs
from services.config.settings import ConfigModel, Env, Yaml, section

_UNSET = SecretStr("")
_BaseUrl = Annotated[str, AfterValidator(checked_url)]


def _one_of(*names: str) -> BeforeValidator:
    """Take the names of providers that there are; others, of older homes, count as unset."""
    return BeforeValidator(lambda given: given if given in names else "")


@section("tts")
class SpeechConfig(ConfigModel):
    """What speaks in `text_to_speech`."""

    provider: Annotated[
        Literal["", "openai", "elevenlabs", "piper"], _one_of("openai", "elevenlabs", "piper")
    ] = ""
    """Text-to-speech provider; unset is the first available: `elevenlabs`, `openai`, `piper`."""
    openai_model: Annotated[str, Yaml("tts.openai.model")] = "gpt-4o-mini-tts"
    """Model for OpenAI's speech API."""
    openai_voice: Annotated[str, Yaml("tts.openai.voice")] = "alloy"
    """Its voice, such as `alloy`, `coral` or `onyx`."""
    openai_base_url: Annotated[_BaseUrl, Yaml("tts.openai.base_url")] = ""
    """Base URL of another server with OpenAI's `/audio/speech`, such as one of your own; unset is
    that of `OPENAI_BASE_URL`."""
    openai_key: Annotated[SecretStr, Env("VOICE_TOOLS_OPENAI_KEY")] = _UNSET
    """Key for OpenAI's speech and transcription; unset is `OPENAI_API_KEY`."""
    elevenlabs_api_key: Annotated[SecretStr, Env("ELEVENLABS_API_KEY")] = _UNSET
    """Key for ElevenLabs: speech and transcription."""
    elevenlabs_base_url: Annotated[_BaseUrl, Env("ELEVENLABS_BASE_URL")] = (
        "https://api.elevenlabs.io"
    )
    """Base URL of ElevenLabs' API, such as `https://api.eu.residency.elevenlabs.io`."""
    elevenlabs_model: Annotated[str, Yaml("tts.elevenlabs.model_id")] = "eleven_multilingual_v2"
    """Model of ElevenLabs."""
    elevenlabs_voice: Annotated[str, Yaml("tts.elevenlabs.voice_id")] = "JBFqnCBsd6RMkjVDRZzb"
    """Id of the voice at ElevenLabs."""
    piper_voice: Annotated[str, Yaml("tts.piper.voice")] = ""
    """Path of a voice of Piper, a file `*.onnx` with its `*.onnx.json` beside it; needs
    `hermes-services[local-speech]`."""

    @property
    def elevenlabs(self) -> ElevenLabs:
        return ElevenLabs(self.elevenlabs_base_url, self.elevenlabs_api_key)


@section("stt")
class TranscriptionConfig(ConfigModel):
    """What writes down voice messages, and sound in `transcribe_audio`, if
    `auxiliary.transcription` is not set."""

    enabled: bool = True
    """Whether to transcribe audio."""
    provider: Annotated[
        Literal["", "openai", "groq", "elevenlabs", "local"],
        _one_of("openai", "groq", "elevenlabs", "local"),
    ] = ""
    """Speech-to-text provider; unset is the first of `groq`, `elevenlabs` and `openai` whose key is
    set. `local` runs Whisper in the agent; it needs `hermes-services[local-speech]`."""
    openai_model: Annotated[str, Yaml("stt.openai.model"), Env("STT_OPENAI_MODEL")] = (
        "gpt-transcribe"
    )
    """Model of OpenAI."""
    groq_model: Annotated[str, Yaml("stt.groq.model"), Env("STT_GROQ_MODEL")] = (
        "whisper-large-v3-turbo"
    )
    """Model of Groq."""
    groq_api_key: Annotated[SecretStr, Env("GROQ_API_KEY")] = _UNSET
    """Key for Groq."""
    groq_base_url: Annotated[_BaseUrl, Env("GROQ_BASE_URL")] = "https://api.groq.com/openai/v1"
    """Base URL of Groq's API."""
    elevenlabs_model: Annotated[str, Yaml("stt.elevenlabs.model_id")] = "scribe_v2"
    """Model of ElevenLabs."""
    local_model: Annotated[str, Yaml("stt.local.model")] = "base"
    """Whisper's size, such as `tiny`, `base` or `large-v3`, or the path of a model; a size is
    downloaded when it is first used."""

    def model(self, has: frozenset[str], openai_url: str) -> AuxiliaryModel | None:
        """The model that listens; `has` are the providers that are set up."""
        order = (self.provider, "groq", "elevenlabs", "openai")
        match next((name for name in order if name in has), "") if self.enabled else "":
            case "groq":
                url = self.groq_base_url
                return AuxiliaryModel(model=self.groq_model, base_url=url, key_env="GROQ_API_KEY")
            case "elevenlabs":
                return AuxiliaryModel(model=self.elevenlabs_model, provider="elevenlabs")
            case "local":
                return AuxiliaryModel(model=self.local_model, provider="local")
            case "openai" if openai_url:
                key, name = "VOICE_TOOLS_OPENAI_KEY", self.openai_model
                return AuxiliaryModel(model=name, base_url=openai_url, key_env=key)
            case "openai":
                return AuxiliaryModel(model=self.openai_model, provider="openai")
            case _:
                return None


@section("image_gen")
class PicturesConfig(ConfigModel):
    """What makes pictures in `image_generate`."""

    provider: Annotated[
        Literal["", "openai", "fal", "openrouter"], _one_of("openai", "fal", "openrouter")
    ] = ""
    """Provider of pictures; unset is the first of `fal`, `openai` and `openrouter` whose
    key is set."""
    openai_model: Annotated[str, Yaml("image_gen.openai.model")] = "gpt-image-2"
    """Model of OpenAI."""
    fal_key: Annotated[SecretStr, Env("FAL_KEY")] = _UNSET
    """Key for fal.ai."""
    fal_model: Annotated[str, Yaml("image_gen.fal.model", "image_gen.model")] = "fal-ai/nano-banana"
    """Model of fal.ai."""
    fal_edit_model: Annotated[str, Yaml("image_gen.fal.edit_model")] = ""
    """Model of fal.ai that changes pictures; unset is `/edit` below `image_gen.fal.model`."""
    openrouter_model: Annotated[str, Yaml("image_gen.openrouter.model")] = (
        "google/gemini-2.5-flash-image"
    )
    """Model of OpenRouter that answers with pictures."""


@section("homeassistant")
class HomeAssistantConfig(ConfigModel):
    """What the Home Assistant tools may do."""

    url: Annotated[_BaseUrl, Yaml("platforms.homeassistant.extra.url"), Env("HASS_URL")] = (
        "http://homeassistant.local:8123"
    )
    """URL of Home Assistant."""
    token: Annotated[SecretStr, Yaml("platforms.homeassistant.token"), Env("HASS_TOKEN")] = _UNSET
    """A long-lived access token of an administrator, from the security page of your profile."""
    ask_domains: tuple[str, ...] = ("alarm_control_panel", "cover", "lock")
    """Domains whose services a person approves first, also when another service reaches them."""
    deny_domains: tuple[str, ...] = (
        *("command_line", "hassio", "pyscript", "python_script", "rest_command", "shell_command"),
    )
    """Domains whose services are never called."""
