"""Costs of model calls in micro-USD."""

import re
from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from agent_service.records.model import ModelMessage
from agent_service.records.usage import Usage

PER_TOKENS = 1_000_000
"""Prices are for this many tokens."""

BYTES_PER_TOKEN = 4
"""Typical for text of most models, for estimates."""

PICTURE_TOKENS = 2_000
"""Per picture of any size: about what the most expensive models count for a large one."""
_UPLOADED = b'"url":"upload:'
"""Where a picture, or sound, is put in when a message is sent."""
_SOUND = re.compile(rb"data:(?:audio|video)/[\w.+-]+;base64,[A-Za-z0-9+/=]*")
_SOUND_CHARS_PER_TOKEN = 100
"""Of base64, in speech at the lowest rates."""
_PICTURE = re.compile(rb"data:image/[a-z.+-]+;base64,[A-Za-z0-9+/=]*")


class Price(Struct, frozen=True):
    """Micro-USD for a million tokens of each kind."""

    input: int
    output: int
    """Includes reasoning, as providers bill it."""
    cache_read: int
    cache_write: int

    def cost(self, usage: Usage) -> int:
        """A call's cost in micro-USD, rounded up; cached tokens are part of the prompt's."""
        known = usage.cached_tokens + usage.cache_write_tokens
        fresh = max(0, usage.prompt_tokens - known)
        total = (
            fresh * self.input
            + usage.cached_tokens * self.cache_read
            + usage.cache_write_tokens * self.cache_write
            + usage.completion_tokens * self.output
        )
        return -(-total // PER_TOKENS)

    def most(self, prompt_tokens: int, completion_tokens: int) -> int:
        """The maximum cost of this many tokens, without cache reads."""
        dearest = max(self.input, self.cache_write)
        return -(-(prompt_tokens * dearest + completion_tokens * self.output) // PER_TOKENS)


def estimated_tokens(parts: Iterable[bytes]) -> int:
    """Estimated tokens of encoded text and its pictures."""
    return sum(map(_estimated, parts))


def _estimated(part: bytes) -> int:
    if b";base64," not in part:
        return len(part) // BYTES_PER_TOKEN + part.count(_UPLOADED) * PICTURE_TOKENS
    text, pictures = _PICTURE.subn(b"", part)
    speech = _SOUND.sub(b"", text)
    sound = (len(text) - len(speech)) // _SOUND_CHARS_PER_TOKEN
    return len(speech) // BYTES_PER_TOKEN + pictures * PICTURE_TOKENS + sound


def count_usage(message: ModelMessage, prompt: Iterable[bytes]) -> ModelMessage:
    """Return the answer with its usage, estimated if the provider sent none."""
    if message.usage is not None:
        return message
    said = (message.text, message.reasoning, *(c.arguments_json for c in message.tool_calls))
    usage = Usage(
        prompt_tokens=estimated_tokens(prompt),
        completion_tokens=estimated_tokens(text.encode(errors="replace") for text in said),
    )
    return replace(message, usage=usage)
