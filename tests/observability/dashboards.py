"""The dashboards of Grafana; `make dashboards` writes them into the chart, which compose mounts."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from tests.observability.agent_panels import TURNS
from tests.observability.panels import (
    RATE,
    Panel,
    Query,
    built,
    figure,
    graph,
    latest,
    quantiles,
    rate,
)

ROOT = Path(__file__).parents[2]
PLACE = ROOT / "helm/hermes/dashboards"
RULES = ROOT / "helm/hermes/rules/hermes.yaml"

_CALLS = "grpc_server_call_duration_seconds"
_FAILED = 'grpc_status=~"UNAVAILABLE|INTERNAL|UNKNOWN|DEADLINE_EXCEEDED|DATA_LOSS"'
_SERVED = f"sum by (service) (rate({_CALLS}_count[{RATE}]))"
_FAILURES = f"sum by (service) (rate({_CALLS}_count{{{_FAILED}}}[{RATE}]))"

FLEET = (
    figure(
        "Services up",
        "Processes that Prometheus can scrape.",
        Query('sum by (service) (up{job="hermes"})', "{{service}}"),
    ),
    figure(
        "Versions",
        "What runs.",
        Query("count by (service, version) (hermes_build_info)", "{{service}} {{version}}"),
    ),
    figure(
        "Databases up",
        "1 where the service's database did what was last asked of it.",
        latest("hermes_database_up", "service", how="min"),
    ),
    graph("Calls", "gRPC calls answered a second.", rate(f"{_CALLS}_count", "service"), unit="ops"),
    graph(
        "Failed calls",
        "The part of them that failed for no fault of the caller.",
        Query(f"({_FAILURES} or {_SERVED} * 0) / {_SERVED}", "{{service}}"),
        unit="percentunit",
    ),
    graph("Time of calls", "By service.", *quantiles(_CALLS, "service"), unit="s"),
    graph(
        "Time of calls to other services",
        "As the caller sees it, by the method.",
        *quantiles("grpc_client_attempt_duration_seconds", "grpc_method", of=(0.99,)),
        unit="s",
    ),
    graph(
        "Calls begun",
        "Received and made, streams too, a second.",
        Query(f"sum by (service) (rate(grpc_server_started_total[{RATE}]))", "{{service}} in"),
        Query(f"sum by (service) (rate(grpc_client_started_total[{RATE}]))", "{{service}} out"),
        unit="ops",
    ),
    graph(
        "Memory",
        "Resident memory of each process.",
        Query('process_resident_memory_bytes{job="hermes"}', "{{service}} {{instance}}"),
        unit="bytes",
    ),
    graph(
        "Processor",
        "Processors that each process keeps busy.",
        Query(
            f'rate(process_cpu_seconds_total{{job="hermes"}}[{RATE}])', "{{service}} {{instance}}"
        ),
    ),
    graph(
        "Open files",
        "Descriptors of each process.",
        Query('process_open_fds{job="hermes"}', "{{service}} {{instance}}"),
    ),
)

EXECUTOR = (
    figure(
        "Sandboxes",
        "By what they are for, and callers who wait for one.",
        latest("hermes_sandbox_pool", "state"),
    ),
    figure("Output on disk", "Of commands.", latest("hermes_spool_bytes"), unit="bytes"),
    figure("Workspaces", "And snapshots.", latest("hermes_workspaces")),
    graph(
        "Pool",
        "Sandboxes by backend and state.",
        latest("hermes_sandbox_pool", "backend", "template", "state"),
        latest("hermes_sandbox_pool_size", "backend", "template", "kind"),
    ),
    graph(
        "Time until a session has its sandbox",
        "By how it got one.",
        *quantiles("hermes_sandbox_acquire_seconds", "backend", "launch"),
        unit="s",
    ),
    graph(
        "Sandboxes given",
        "A second, by what came of it.",
        rate("hermes_sandbox_acquire_seconds_count", "backend", "launch", "outcome"),
        unit="ops",
    ),
    graph(
        "No warm sandbox",
        "Times a second that none was ready.",
        rate("hermes_sandbox_pool_misses_total", "template"),
        unit="ops",
    ),
    graph("Time of commands", "That have ended.", *quantiles("hermes_exec_seconds"), unit="s"),
    graph(
        "Commands",
        "Ended a second, by how.",
        rate("hermes_exec_exits_total", "backend", "reason"),
        unit="ops",
    ),
    graph(
        "Set right",
        "Output dropped, boxes of nobody ended, and late owners refused, in the last hour.",
        Query("sum(increase(hermes_exec_output_truncated_total[1h]))", "output dropped"),
        Query("sum(increase(hermes_orphans_reaped_total[1h]))", "orphans ended"),
        Query("sum(increase(hermes_stale_epoch_rejections_total[1h]))", "stale owners"),
    ),
    graph(
        "Connections of sandboxes",
        "A second, by what came of them.",
        rate("hermes_egress_connections_total", "outcome"),
        rate("hermes_egress_denied_total", "rule"),
        unit="ops",
    ),
)

GATEWAY = (
    figure(
        "Platforms",
        "1 where the platform answers.",
        latest("hermes_platform_connected", "platform", how="max"),
    ),
    figure(
        "Last heard",
        "How long ago the platform last answered a poll.",
        Query(
            "time() - max by (platform) (hermes_platform_last_receive_timestamp_seconds)",
            "{{platform}}",
        ),
        unit="s",
    ),
    figure("Outbox", "Messages that wait to be sent.", latest("hermes_outbox_pending", how="max")),
    figure(
        "Oldest in the outbox",
        "How long it has waited.",
        latest("hermes_outbox_oldest_seconds", how="max"),
        unit="s",
    ),
    graph(
        "From message to turn",
        "How long messages waited for their turn to begin.",
        *quantiles("hermes_inbox_lag_seconds", "platform"),
        unit="s",
    ),
    graph(
        "Deliveries",
        "A second, by what came of them.",
        rate("hermes_deliveries_total", "platform", "outcome"),
        unit="ops",
    ),
    graph(
        "Waiting",
        "Messages that wait to be sent, over time.",
        latest("hermes_outbox_pending", how="max"),
    ),
    graph(
        "Came again",
        "Events that platforms have sent twice, a second.",
        rate("hermes_duplicates_suppressed_total", "service"),
        unit="ops",
    ),
    graph(
        "Told to wait",
        "Seconds that platforms have told us to wait, in the last hour.",
        Query(
            "sum by (platform) (increase(hermes_platform_rate_limited_seconds_total[1h]))",
            "{{platform}}",
        ),
        unit="s",
    ),
)

SCHEDULER = (
    figure(
        "Next job in",
        "Time until the next job is due; nothing where there is none.",
        Query("max(hermes_cron_next_due_timestamp_seconds > 0) - time()", "next"),
        unit="s",
    ),
    figure(
        "Curator ran",
        "How long ago it last did, in any profile; nothing where it never did.",
        Query("time() - max(hermes_curator_last_run_timestamp_seconds > 0)", "ago"),
        unit="s",
    ),
    graph("Runs", "Ended a second.", rate("hermes_cron_runs_total", "outcome"), unit="ops"),
    graph(
        "Lateness",
        "From a due time until its run was claimed.",
        *quantiles("hermes_cron_lateness_seconds"),
        unit="s",
    ),
    graph(
        "Missed",
        "Jobs in the last hour of which due times had passed.",
        Query("sum by (policy) (increase(hermes_cron_missed_total[1h]))", "{{policy}}"),
    ),
    graph(
        "Skills moved",
        "By the curator, in the last day.",
        Query("sum by (to) (increase(hermes_curator_transitions_total[1d]))", "{{to}}"),
    ),
)

_TABLE: tuple[tuple[str, str, str, tuple[Panel, ...]], ...] = (
    ("fleet", "Hermes: fleet", "All services: are they there, and how do their calls go?", FLEET),
    ("turns", "Hermes: turns and models", "What is answered, how fast, and for how much?", TURNS),
    ("executor", "Hermes: executor pool", "Sandboxes, and the commands in them.", EXECUTOR),
    ("gateway", "Hermes: gateway delivery", "What comes in from chats, and goes out.", GATEWAY),
    ("scheduler", "Hermes: scheduler", "Jobs, and the curator of skills.", SCHEDULER),
)

PANELS: Mapping[str, tuple[Panel, ...]] = {name: panels for name, _, _, panels in _TABLE}
"""Of each dashboard, by its file's name."""


def text_of(made: Dashboard) -> str:
    """A dashboard as Grafana reads it."""
    plain = json.loads(JSONEncoder().encode(made))
    for variable in plain["templating"]["list"]:
        # The builder says of every variable what only those of intervals have.
        for name in [name for name in variable if name.startswith("auto")]:
            del variable[name]
    return json.dumps(_without_nothing(plain), indent=2, sort_keys=True) + "\n"


def _without_nothing(value: Any) -> Any:
    """The same without nulls, which no type of Grafana's has."""
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value).items()
        return {name: _without_nothing(each) for name, each in fields if each is not None}
    if isinstance(value, list):
        return [_without_nothing(each) for each in cast("list[Any]", value)]
    return value


def files() -> Mapping[str, str]:
    """All dashboards, by the names of their files."""
    return {
        f"{name}.json": text_of(built(f"hermes-{name}", title, about, panels))
        for name, title, about, panels in _TABLE
    }


if __name__ == "__main__":
    for name, text in files().items():
        (PLACE / name).write_text(text, encoding="utf-8")
