"""What the agent tells Prometheus."""

from typing import Self

from msgspec import Struct
from prometheus_client import Counter, Gauge, Histogram

from agent_service.events import TurnFinished
from agent_service.facts import (
    ApprovalNeeded,
    Fact,
    ModelAnswered,
    ScriptReturned,
    ToolReturned,
)
from agent_service.live_turn import LiveTurn
from agent_service.models.base import Usage as CallUsage
from services.metrics import LONG_SECONDS, Meter

_MODEL = ("gen_ai_request_model", "gen_ai_provider_name")


class AgentMetrics(Struct, frozen=True):
    """Turns, model calls, tools and approvals."""

    turns: Counter
    turn_seconds: Histogram
    active: Gauge
    resumes: Counter
    uncertain: Counter
    tool_seconds: Histogram
    tokens: Counter
    cost_usd: Counter
    cache_read: Counter
    approvals: Counter
    asked: Counter

    @classmethod
    def create(cls, meter: Meter) -> Self:
        """The metrics, registered."""
        return cls(
            turns=meter.counter("hermes_turns_total", "Turns ended.", "platform", "outcome"),
            turn_seconds=meter.histogram(
                "hermes_turn_duration_seconds", "From message to end.", buckets=LONG_SECONDS
            ),
            active=meter.gauge("hermes_turns_active", "Turns that run here now."),
            resumes=meter.counter("hermes_turn_resumes_total", "Turns taken over."),
            uncertain=meter.counter(
                "hermes_steps_uncertain_total", "Steps of which nobody knows whether they happened."
            ),
            tool_seconds=meter.histogram(
                "hermes_tool_duration_seconds",
                "Time that a tool call took.",
                "tool",
                "outcome",
                buckets=LONG_SECONDS,
            ),
            tokens=meter.counter(
                "gen_ai_client_token_usage_total", "Tokens.", "gen_ai_token_type", *_MODEL
            ),
            cost_usd=meter.counter("hermes_llm_cost_usd_total", "Cost.", "provider", "model"),
            cache_read=meter.counter(
                "hermes_prompt_cache_read_tokens_total", "Prompt tokens that were cached."
            ),
            approvals=meter.counter("hermes_approvals_total", "Decisions.", "decision"),
            asked=meter.counter("hermes_approvals_asked_total", "Questions to a person."),
        )

    def committed(self, turn: LiveTurn, facts: tuple[Fact, ...], seconds: float) -> None:
        """Count facts that are stored; `seconds` is the turn's age."""
        for fact in facts:
            match fact:
                case ModelAnswered(_, message):
                    self._model_call(turn, message.provider, message.usage)
                case ToolReturned() | ScriptReturned():
                    outcome = "error" if fact.is_error else "ok"
                    name = fact.call.call.name
                    self.tool_seconds.labels(name, outcome).observe(fact.duration_ms / 1000)
                    self.uncertain.inc(fact.uncertain)
                case ApprovalNeeded():
                    self.asked.inc()
                case TurnFinished(outcome):
                    self.turns.labels(turn.platform, outcome).inc()
                    self.turn_seconds.observe(seconds)
                case _:
                    pass

    def _model_call(self, turn: LiveTurn, provider: str, usage: CallUsage | None) -> None:
        if usage is None:
            return
        named = (turn.model, provider)
        self.tokens.labels("input", *named).inc(usage.prompt_tokens)
        self.tokens.labels("output", *named).inc(usage.completion_tokens)
        self.cache_read.inc(usage.cached_tokens)
        if usage.cost_micro_usd:
            self.cost_usd.labels(provider, turn.model).inc(usage.cost_micro_usd / 1e6)
