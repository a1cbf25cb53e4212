"""List prices of models for speech, sound and pictures, as their providers published them in 2026.

All are counted in tokens, so that budgets and prices work as for other models: a character that is
spoken is a token, a second of sound is 10 if the provider tells only its length, and a picture is
1,000 if the provider tells nothing. `models.<id>.price` of config.yaml replaces a price.
"""

from collections.abc import Mapping

from agent_service.models.costs import Price

TOKENS_PER_S = 10
PICTURE_MADE_TOKENS = 1_000


def _price(input_usd: float, output_usd: float = 0.0) -> Price:
    """A price from US dollars for a million tokens."""
    per_input, per_output = round(input_usd * 1e6), round(output_usd * 1e6)
    return Price(per_input, per_output, per_input, per_input)


PRICES: Mapping[str, Price] = {
    "piper": _price(0),
    "gpt-4o-mini-tts": _price(17),
    "tts-1": _price(15),
    "tts-1-hd": _price(30),
    "eleven_multilingual_v2": _price(100),
    "eleven_v3": _price(100),
    "eleven_turbo_v2_5": _price(50),
    "eleven_flash_v2_5": _price(50),
    "gpt-transcribe": _price(7.5),
    "whisper-1": _price(10),
    "gpt-4o-transcribe": _price(6, 10),
    "gpt-4o-mini-transcribe": _price(3, 5),
    "whisper-large-v3": _price(3.09),
    "whisper-large-v3-turbo": _price(1.12),
    "scribe_v1": _price(11.2),
    "scribe_v2": _price(11.2),
    "gpt-image-2": _price(8, 30),
    "fal-ai/nano-banana": _price(0, 39),
    "fal-ai/nano-banana/edit": _price(0, 39),
    "fal-ai/flux/schnell": _price(0, 3),
    "fal-ai/flux/dev": _price(0, 25),
    "google/gemini-2.5-flash-image": _price(0.3, 30),
}
