"""Shortens a conversation before it exceeds its model's window.

Old tool results are dropped first. If that is not enough, a model summarizes the middle; if that
fails, the summary uses only what is known without a model.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

from agent_service.config.sessions import CompressionConfig
from agent_service.models.catalog import ANSWER_SHARE, SMALL_WINDOW
from agent_service.models.fallback import Route
from agent_service.prompt.compression import summary
from agent_service.records.commands import ContextCompressed, Fact
from agent_service.records.compression import Conversation, headed, prune, summarised
from agent_service.records.errors import ModelNotConfigured
from agent_service.records.events import Live, Notice
from agent_service.records.model import (
    Model,
    ModelMessage,
    ModelRequest,
    Purpose,
    Unwatched,
    usage_of,
)
from agent_service.records.model_errors import ModelError
from agent_service.records.turn_state import LiveTurn
from agent_service.records.usage import Usage
from services.clock import Clock

BYTES_PER_TOKEN = 4
USUAL_RATE, LEAST_RATE, MOST_RATE = 1 / BYTES_PER_TOKEN, 0.1, 1.0
"""Tokens per byte."""
COOL_DOWN_S = 600.0
"""How long no model is asked for notes of a session after a failure."""
IN_VAIN_LIMIT = 2
"""A turn stops compressing after this many useless passes."""
SUMMARY_TOKENS = 4096
SUMMARY_TEMPERATURE = 0.3
LARGE_WINDOW, LARGE_SHARE, SMALL_SHARE = 512_000, 0.5, 0.75
KEPT_SHARE = 0.2
"""The newest messages keep this share of the threshold."""
ENOUGH_SHARE = 0.6
"""Dropping results is enough if the request falls below this share of the threshold."""

_log = logging.getLogger(__name__)


class Compressor:
    """Compresses the conversations of turns."""

    def __init__(
        self,
        window_of: Callable[[str], int],
        plan_of: Callable[[str], Awaitable[str]],
        config: CompressionConfig,
        route: Route,
        clock: Clock,
    ) -> None:
        """`route` selects the model for notes; without a model it is the turn's own."""
        self.window_of = window_of
        self._plan_of = plan_of
        self._config = config
        self._route = route
        self._clock = clock
        self._failed_at: dict[str, float] = {}

    def is_due(self, turn: LiveTurn, tools: bytes) -> bool:
        if not self._config.enabled or turn.compressed_in_vain >= IN_VAIN_LIMIT:
            return False
        return _tokens(turn.messages, tools, _rate(turn)) > self._threshold(turn)

    async def run(
        self, turn: LiveTurn, tools: bytes, model: Model, *, by_half: bool = False
    ) -> AsyncGenerator[Live | tuple[Fact, ...]]:
        """Shorten the conversation: by half, or as far as needed; `model` writes the notes."""
        rate, threshold = _rate(turn), self._threshold(turn)
        if by_half:
            threshold = min(threshold, _tokens(turn.messages, tools, rate) / 2)
        was = headed(Conversation(turn.messages, turn.compression), self._config.protect_first_n)
        end = self._end(was, threshold * KEPT_SHARE / rate)
        found, usage, asked = prune(was, end), Usage(), ""
        is_enough = _tokens(found.messages, tools, rate) <= threshold * ENOUGH_SHARE
        # Summarizing pays only if there is more in the middle than earlier notes.
        if not is_enough and end - was.compression.head > 2:
            yield Notice("This conversation has become long; its middle is compressed now.")
            found, usage, asked = await self._summarised(turn, model, was, end)
        before, after = (_tokens(c.messages, tools, rate) for c in (was, found))
        yield (
            ContextCompressed(
                found.compression,
                tuple(found.messages),
                round(before),
                round(after),
                helped=after < min(before, threshold),
                usage=usage,
                model=asked,
            ),
        )

    def explain_overflow(self, turn: LiveTurn, tools: bytes, error: ModelError) -> ModelError:
        """Return the error of a request that is too long, with the figures and the ways out."""
        asked = round(_tokens(turn.messages, tools, _rate(turn)))
        window = self.window_of(turn.model)
        room = f" and {turn.model} takes {window:,}" if asked > window // 2 else ""
        lean = "" if turn.overlay.is_lean else " with lean tools (hermes config set tools lean)"
        message = (
            f"The conversation is too long for {turn.model}: the request has about {asked:,} "
            f"tokens{room}. Start a new session{lean}, give the model more context where it runs "
            "(llama.cpp: --ctx-size 16384; Ollama: OLLAMA_CONTEXT_LENGTH=16384; LM Studio: Context "
            "Length), or choose a model with a larger window."
        )
        text = f"{message} It says: {error.detail}" if error.detail else message
        return ModelError(error.kind, text, status=error.status, detail=error.detail)

    async def _summarised(
        self, turn: LiveTurn, model: Model, was: Conversation, end: int
    ) -> tuple[Conversation, Usage, str]:
        """The shortened conversation, the usage, and the name of the model."""
        middle = was.messages[1 + was.compression.head : end]
        notes, paid = await self._notes(turn, model, middle)
        plan = await self._plan_of(turn.session_id)
        said = summary.message(notes or summary.handed_off(middle), middle, plan)
        asked = paid[-1].model if paid else ""
        return summarised(was, end, said), usage_of(paid), asked

    async def _notes(
        self, turn: LiveTurn, model: Model, middle: Sequence[bytes]
    ) -> tuple[str, Sequence[ModelMessage]]:
        """Notes on some messages, empty if the model fails, and the answers to pay for."""
        paid: list[ModelMessage] = []
        since = self._clock.monotonic() - self._failed_at.get(turn.session_id, float("-inf"))
        if since < COOL_DOWN_S:
            return "", paid
        own, usual = self._route, Route(turn.route, turn.model)
        for route in dict.fromkeys([own if own.model else usual, usual]):
            request = ModelRequest(
                model=route.model,
                messages=summary.request(middle, self._most_bytes(route.model)),
                max_tokens=min(SUMMARY_TOKENS, turn.max_tokens),
                route=route.name,
                temperature=SUMMARY_TEMPERATURE,
                purpose=Purpose.COMPRESSION,
            )
            call = Unwatched(model, request)
            try:
                answer = await call.answer()
            except (ModelError, ModelNotConfigured) as error:
                _log.warning("%s makes no notes of a conversation: %s", route.model, error)
            else:
                self._failed_at.pop(turn.session_id, None)
                return answer.text.strip(), paid
            finally:
                paid += call.paid
        now_s = self._clock.monotonic()
        # Drop expired entries, since their sessions may never come back.
        kept = {key: at for key, at in self._failed_at.items() if now_s - at < COOL_DOWN_S}
        self._failed_at = {**kept, turn.session_id: now_s}
        return "", paid

    def _most_bytes(self, model: str) -> int:
        return self.window_of(model) * BYTES_PER_TOKEN // 2

    def _end(self, conversation: Conversation, kept_bytes: float) -> int:
        messages = conversation.messages
        end = len(messages)
        while end > 1 and (kept_bytes > 0 or len(messages) - end < self._config.protect_last_n):
            end -= 1
            kept_bytes -= len(messages[end])
        return max(conversation.before_results(end), conversation.first_kept)

    def _threshold(self, turn: LiveTurn) -> float:
        window = self.window_of(turn.model)
        usual = LARGE_SHARE if window >= LARGE_WINDOW else SMALL_SHARE
        share = usual if self._config.threshold is None else self._config.threshold
        # An answer as long as the window would leave no room for the prompt.
        least = window - window // ANSWER_SHARE if window < SMALL_WINDOW else window // 4
        return max(window - turn.max_tokens, least) * share


def _tokens(messages: Sequence[bytes], tools: bytes, rate: float) -> float:
    return (sum(map(len, messages)) + len(tools)) * rate


def counted_rate(turn: LiveTurn, tools: bytes, answer: ModelMessage) -> float:
    """Tokens per byte of an answered request, to two decimals; 0 if the provider does not count."""
    if answer.usage is None or not answer.usage.prompt_tokens:
        return 0.0
    rate = answer.usage.prompt_tokens / (sum(map(len, turn.messages)) + len(tools))
    # Rounded, since every change is stored.
    return round(min(max(rate, LEAST_RATE), MOST_RATE), 2)


def _rate(turn: LiveTurn) -> float:
    return turn.tokens_per_byte or USUAL_RATE
