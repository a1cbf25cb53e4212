"""The line below the input: what Hermes does, the model, its context, the cost and the sandbox."""

from time import monotonic

from hermes.agent.v1.session_pb2 import Session
from hermes.agent.v1.turn_event_pb2 import TurnEvent, UsageReported
from services.amounts import dollars

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
FRAMES_PER_S = 5
ANSWER_S, TOKENS = 0.2, 5
"""The shortest answer whose speed says something."""

WAITS, ANSWERS = "waiting for the model", "answering"


class Status:
    """Follows the events of a conversation."""

    def __init__(self) -> None:
        self._model = self._sandbox = self._doing = ""
        self._used = self._window = self._cost_micro_usd = 0
        self._tokens_per_s = 0.0
        self._busy_since = self._answer_since = 0.0

    def render(self, *, is_busy: bool) -> str:
        window = f" of {_thousands(self._window)}" if self._window else ""
        parts = (
            self._activity(is_busy=is_busy),
            self._model,
            f"{_thousands(self._used)}{window} tokens" if self._used else "",
            dollars(self._cost_micro_usd) if self._cost_micro_usd else "",
            self._sandbox,
        )
        return " · ".join(filter(None, parts))

    def begin_session(self, session: Session) -> None:
        self._model = session.model or self._model
        self._cost_micro_usd = session.usage.cost_micro_usd
        self._used = 0

    def follow(self, event: TurnEvent) -> None:
        match event.WhichOneof("kind"):
            case "turn_started":
                self._model, self._doing = event.turn_started.model or self._model, WAITS
            case "prompt_progress":
                told = event.prompt_progress
                percent = 100 * told.read_tokens // max(1, told.total_tokens)
                self._doing = f"reading the prompt ({percent} %)"
            case "text_delta" | "reasoning_delta":
                self._doing = ANSWERS
                self._answer_since = self._answer_since or monotonic()
            case "usage_reported":
                self._count(event.usage_reported)
            case "tool_started":
                self._doing = event.tool_started.name
            case "tool_finished":
                self._doing = WAITS
                self._sandbox = event.tool_finished.backend or self._sandbox
            case "compressed":
                self._used = event.compressed.after_token_count
            case _:
                pass

    def _activity(self, *, is_busy: bool) -> str:
        """Return what is done and for how long, or how fast the last answer was."""
        if not is_busy:
            self._busy_since, self._doing = 0.0, ""
            return f"{self._tokens_per_s:.0f} tokens/s" if self._tokens_per_s else ""
        now = monotonic()
        self._busy_since = self._busy_since or now
        sign = SPINNER[int(now * FRAMES_PER_S) % len(SPINNER)]
        return f"{sign} {now - self._busy_since:.0f} s {self._doing}".rstrip()

    def _count(self, reported: UsageReported) -> None:
        usage = reported.usage
        self._used = usage.prompt_tokens + usage.completion_tokens
        self._window = reported.window_tokens or self._window
        self._cost_micro_usd += usage.cost_micro_usd
        answered_s = monotonic() - self._answer_since if self._answer_since else 0.0
        if answered_s >= ANSWER_S and usage.completion_tokens >= TOKENS:
            self._tokens_per_s = usage.completion_tokens / answered_s
        self._answer_since = 0.0


def _thousands(tokens: int) -> str:
    return f"{tokens / 1000:.1f}k" if tokens < 100_000 else f"{tokens // 1000}k"
