"""The metrics that the services declare, and those that the specification wants."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from agent_service.metrics import AgentMetrics, Gauges, counting_scanner
from agent_service.models.metered import ModelMetrics
from executor_service.metrics import ExecutorMetrics
from gateway_service.metrics import GatewayMetrics
from scheduler_service.runs.metrics import CuratorMetrics, SchedulerMetrics
from services.database import Database
from services.metrics import GrpcMetrics, Meter, redactions

OURS = re.compile(r"\b(?:hermes|grpc|gen_ai)_[a-z0-9_]+")
SUFFIX = re.compile(r"_(?:count|sum|bucket)$")
BY_LABELS = re.compile(r"\{[^}]*\}|by \([^)]*\)")
"""Parts of PromQL that name labels."""

WANTED: Mapping[str, tuple[str, ...]] = {
    "grpc_server_call_duration_seconds": ("grpc_method", "grpc_status"),
    "grpc_client_attempt_duration_seconds": ("grpc_method", "grpc_status"),
    "grpc_server_started_total": ("grpc_method",),
    "grpc_client_started_total": ("grpc_method",),
    "gen_ai_client_token_usage": (
        "gen_ai_token_type",
        "gen_ai_request_model",
        "gen_ai_provider_name",
    ),
    "gen_ai_client_operation_duration_seconds": ("gen_ai_request_model", "gen_ai_provider_name"),
    "gen_ai_client_operation_time_to_first_chunk_seconds": (
        "gen_ai_request_model",
        "gen_ai_provider_name",
    ),
    "hermes_llm_cost_usd_total": ("provider", "model", "purpose"),
    "hermes_llm_errors_total": ("kind",),
    "hermes_llm_retries_total": (),
    "hermes_prompt_cache_read_tokens_total": (),
    "hermes_budget_used_ratio": ("scope",),
    "hermes_turns_total": ("platform", "outcome"),
    "hermes_turn_duration_seconds": (),
    "hermes_turns_active": (),
    "hermes_turn_queue_oldest_seconds": (),
    "hermes_turn_resumes_total": (),
    "hermes_steps_uncertain_total": (),
    "hermes_compressions_total": ("outcome",),
    "hermes_tool_duration_seconds": ("tool", "outcome"),
    "hermes_approvals_pending": (),
    "hermes_approval_wait_seconds": (),
    "hermes_approvals_total": ("decision",),
    "hermes_threats_blocked_total": ("source", "family"),
    "hermes_secrets_redacted_total": (),
    "hermes_sandbox_acquire_seconds": ("backend", "template", "launch", "outcome"),
    "hermes_sandbox_pool": ("backend", "template", "state"),
    "hermes_sandbox_pool_misses_total": ("template",),
    "hermes_exec_seconds": (),
    "hermes_exec_exits_total": ("backend", "reason"),
    "hermes_exec_output_truncated_total": (),
    "hermes_orphans_reaped_total": (),
    "hermes_stale_epoch_rejections_total": (),
    "hermes_egress_denied_total": ("rule",),
    "hermes_spool_bytes": (),
    "hermes_inbox_lag_seconds": ("platform",),
    "hermes_outbox_pending": (),
    "hermes_outbox_oldest_seconds": (),
    "hermes_deliveries_total": ("platform", "outcome"),
    "hermes_duplicates_suppressed_total": (),
    "hermes_platform_connected": ("platform",),
    "hermes_platform_last_receive_timestamp_seconds": ("platform",),
    "hermes_platform_rate_limited_seconds_total": ("platform",),
    "hermes_cron_runs_total": ("outcome",),
    "hermes_cron_lateness_seconds": (),
    "hermes_cron_missed_total": ("policy",),
    "hermes_cron_next_due_timestamp_seconds": (),
    "hermes_curator_last_run_timestamp_seconds": (),
    "hermes_reviews_total": ("kind", "outcome"),
    "hermes_memory_used_ratio": ("store",),
    "hermes_skills": ("state",),
    "hermes_curator_transitions_total": ("to",),
    "hermes_subagents_active": (),
}
"""With their labels; `hermes_build_info` and what the process tells come on top."""


@dataclass(frozen=True, slots=True)
class Declared:
    """One metric."""

    name: str
    kind: str
    labels: tuple[str, ...]
    meaning: str


class Noting(Meter):
    """Notes what is made."""

    def __init__(self) -> None:
        super().__init__(CollectorRegistry())
        self.noted: list[Declared] = []

    def counter(self, name: str, meaning: str, *labels: str) -> Counter:
        self.noted.append(Declared(name, "counter", labels, meaning))
        return super().counter(name, meaning, *labels)

    def gauge(self, name: str, meaning: str, *labels: str) -> Gauge:
        self.noted.append(Declared(name, "gauge", labels, meaning))
        return super().gauge(name, meaning, *labels)

    def histogram(self, name: str, meaning: str, *labels: str, **options: Any) -> Histogram:
        self.noted.append(Declared(name, "histogram", labels, meaning))
        return super().histogram(name, meaning, *labels, **options)


def declared() -> Mapping[str, list[Declared]]:
    """All metrics, by whose they are."""
    every, agent, executor, gateway, scheduler = (Noting() for _ in range(5))
    GrpcMetrics.create(every)
    Database("sqlite:////nonexistent/rows.db", "any").measure(every)
    AgentMetrics.create(agent, ())
    ModelMetrics.create(agent, bool)
    Gauges.create(agent)
    counting_scanner(agent)
    for storing in (agent, gateway, scheduler):
        redactions(storing)
    ExecutorMetrics.create(executor)
    GatewayMetrics.create(gateway)
    SchedulerMetrics.create(scheduler)
    CuratorMetrics.create(scheduler)
    return {
        "every service": every.noted,
        "agent": agent.noted,
        "executor": executor.noted,
        "gateway": gateway.noted,
        "scheduler": scheduler.noted,
    }


def table(whose: str) -> str:
    """The metrics of a service as a table for people."""
    rows: Iterable[str] = (
        f"| `{one.name}` | {one.kind} | {', '.join(f'`{label}`' for label in one.labels)} "
        f"| {one.meaning} |"
        for one in sorted(declared()[whose], key=lambda one: one.name)
    )
    return "\n".join(["| Metric | Kind | Labels | Says |", "|---|---|---|---|", *rows])
