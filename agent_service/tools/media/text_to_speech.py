"""The `text_to_speech` tool."""

from functools import partial

from pydantic import Field

from agent_service.models.media.local import MP3, OPUS
from agent_service.tools.base import Effect, ToolArguments, ToolContext, ToolResult, UsualTool
from agent_service.tools.media.made_files import make_file
from agent_service.tools.media.speech import SpeechModel, usage_of

VOICE_NOTES = frozenset({"telegram", "whatsapp", "discord", "matrix", "signal"})
"""Platforms whose voice messages are Opus in Ogg; elsewhere more players know MP3."""
MAX_CHARACTERS = 4_000


class TextToSpeechArguments(ToolArguments):
    """Turns text into speech: an audio file in the workspace, which is sent with your answer.

    Chats that have voice messages show it as one. Use it if the user wants to hear something, or
    has sent a voice message and the answer is short and without code or tables.
    """

    text: str = Field(
        min_length=1,
        max_length=MAX_CHARACTERS,
        description="What to say, as plain words without Markdown, at most 4,000 characters.",
    )
    voice: str = Field(
        default="",
        max_length=100,
        # It becomes part of an address.
        pattern=r"^([A-Za-z0-9][A-Za-z0-9_.+() -]*)?$",
        description="Voice of the provider, if not the usual one.",
    )


class TextToSpeech(UsualTool[TextToSpeechArguments]):
    """Speaks."""

    name = "text_to_speech"
    toolset = "tts"
    arguments = TextToSpeechArguments
    usual_effect = Effect.KEYED

    def __init__(self, speaker: SpeechModel | None) -> None:
        self._speaker = speaker

    async def run(self, arguments: TextToSpeechArguments, context: ToolContext) -> ToolResult:
        speaker = self._speaker
        assert speaker is not None, "it is off without one"
        suffix = OPUS if context.caller.origin.get("platform") in VOICE_NOTES else MP3
        text, voice = arguments.text, arguments.voice

        async def speak() -> bytes:
            used = usage_of(text)
            make = partial(speaker.speak, text, voice, suffix)
            return await context.spend(speaker.model, speaker.provider, used, make)

        return await make_file(context, "speech", suffix, speak)
