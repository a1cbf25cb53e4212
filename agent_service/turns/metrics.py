"""The agent's Prometheus metrics."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Self

from prometheus_client import Counter, Gauge, Histogram

from agent_service.records.calls import SCRIPT
from agent_service.records.commands import (
    ApprovalNeeded,
    ContextCompressed,
    Fact,
    ScriptReturned,
    ToolReturned,
)
from agent_service.records.events import CLARIFY, Decision, TurnFinished
from agent_service.records.requests import REVIEW, REVIEW_KIND, SUBAGENT
from agent_service.records.turn_state import LiveTurn
from agent_service.security.threats import Source, ThreatScanner
from agent_service.storage.activity import Waiting
from agent_service.storage.approvals import ApprovalInfo
from agent_service.tools.base import Tool
from services.telemetry.metrics import (
    LONG_SECONDS,
    LabelValues,
    Meter,
    Metrics,
    counter,
    gauge,
    histogram,
)

_MOST_PLATFORMS = 30
"""The maximum number of platform labels, because callers may name any platform."""


def build_scanner(meter: Meter) -> ThreatScanner:
    """Return a scanner that counts the threats that it finds."""
    blocked = meter.counter(
        "hermes_threats_blocked_total",
        "Prompt injections found, by source, and commands that are always refused.",
        *("source", "family"),
    )

    def count(source: Source, families: Iterable[str]) -> None:
        for family in families:
            blocked.labels(source, family).inc()

    return ThreatScanner(count)


class AgentMetrics(Metrics, frozen=True):
    """Turns, tools and approvals."""

    tools: LabelValues
    platforms: LabelValues
    turns: Counter = counter("hermes_turns_total", "Turns ended.", "platform", "outcome")
    turn_seconds: Histogram = histogram(
        "hermes_turn_duration_seconds", "Time from message to end.", buckets=LONG_SECONDS
    )
    active: Gauge = gauge("hermes_turns_active", "Turns running on this replica.")
    subagents: Gauge = gauge(
        "hermes_subagents_active", "Turns of subagents running on this replica."
    )
    resumes: Counter = counter("hermes_turn_resumes_total", "Turns resumed by a new owner.")
    uncertain: Counter = counter(
        "hermes_steps_uncertain_total", "Steps that may or may not have taken effect."
    )
    compressions: Counter = counter(
        "hermes_compressions_total",
        "Conversations compressed, by whether they are short enough now.",
        "outcome",
    )
    reviews: Counter = counter(
        "hermes_reviews_total",
        "Reviews of conversations, by what they may change.",
        *("kind", "outcome"),
    )
    tool_seconds: Histogram = histogram(
        "hermes_tool_duration_seconds",
        "Duration of tool calls.",
        *("tool", "outcome"),
        buckets=LONG_SECONDS,
    )
    approvals: Counter = counter(
        "hermes_approvals_total",
        "Decisions on approval requests.",
        "decision",
        known=set(Decision) - {Decision.ANSWERED},
    )
    approval_wait: Histogram = histogram(
        "hermes_approval_wait_seconds",
        "Time from an approval request to its decision.",
        buckets=LONG_SECONDS,
    )
    asked: Counter = counter("hermes_approvals_asked_total", "Approval requests.")

    @classmethod
    def make(cls, meter: Meter, tools: Iterable[Tool[Any]]) -> Self:
        """Register the metrics; calls of unknown tools share one label."""
        known = frozenset((*(tool.name for tool in tools), SCRIPT))
        names = LabelValues(len(known), known.__contains__)
        return cls.create(meter, tools=names, platforms=LabelValues(_MOST_PLATFORMS))

    def began(self, turn: LiveTurn) -> None:
        self.active.inc()
        self.subagents.inc(turn.kind == SUBAGENT)

    def let_go(self, turn: LiveTurn) -> None:
        self.active.dec()
        self.subagents.dec(turn.kind == SUBAGENT)

    def committed(self, turn: LiveTurn, facts: tuple[Fact, ...], seconds: float) -> None:
        for fact in facts:
            match fact:
                case ToolReturned() | ScriptReturned():
                    outcome = "error" if fact.is_error else "ok"
                    name = self.tools.bound(fact.call.call.name)
                    self.tool_seconds.labels(name, outcome).observe(fact.duration_ms / 1000)
                    self.uncertain.inc(fact.uncertain)
                case ApprovalNeeded(call=call):
                    self.asked.inc(call.call.name != CLARIFY)
                case ContextCompressed(helped=helped):
                    self.compressions.labels("helped" if helped else "in_vain").inc()
                case TurnFinished(outcome):
                    self.turns.labels(self.platforms.bound(turn.platform), outcome).inc()
                    self.turn_seconds.observe(seconds)
                    if turn.kind == REVIEW:
                        self.reviews.labels(turn.origin[REVIEW_KIND], outcome).inc()
                case _:
                    pass

    def decided(self, approval: ApprovalInfo, decision: Decision, now: datetime) -> None:
        if approval.tool != CLARIFY:
            self.approvals.labels(decision).inc()
            self.approval_wait.observe(max(0.0, (now - approval.create_time).total_seconds()))


class Gauges(Metrics, frozen=True):
    """Gauges whose values are read from storage."""

    queue_oldest: Gauge = gauge(
        "hermes_turn_queue_oldest_seconds", "Age of the oldest turn that has not begun."
    )
    approvals: Gauge = gauge("hermes_approvals_pending", "Approval requests waiting for a person.")
    approvals_oldest: Gauge = gauge(
        "hermes_approvals_oldest_seconds", "Age of the oldest waiting approval request."
    )
    budgets: Gauge = gauge(
        "hermes_budget_used_ratio",
        "Used share of the budget that is nearest to its limit.",
        "scope",
    )
    memories: Gauge = gauge(
        "hermes_memory_used_ratio", "Used share of the fullest memory of all profiles.", "store"
    )
    skills: Gauge = gauge("hermes_skills", "Skills of all profiles.", "state")

    def waits(self, found: Waiting, now: datetime) -> None:
        self.queue_oldest.set(_age_s(found.queued_at, now))
        self.approvals.set(found.approvals)
        self.approvals_oldest.set(_age_s(found.asked_at, now))


def _age_s(since: datetime | None, now: datetime) -> float:
    return 0.0 if since is None else max(0.0, (now - since).total_seconds())
