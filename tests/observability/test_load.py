"""After a load on running services every metric has moved and every panel shows something."""

import asyncio
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.backends import need_backend
from tests.observability.dashboards import PANELS, RATE
from tests.observability.declared import declared
from tests.observability.load import ROUNDS, loaded
from tests.observability.prometheus import Prometheus, prometheus

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

SERIES = 3000
QUERIES = {
    f"{panel.dashboard}: {panel.title}: {query}": (query, panel.unit)
    for panel in PANELS
    for query in panel.queries
}
"""Each panel's expressions, and their unit."""
LONGEST_S = 24 * 3600.0
"""More than any time that a panel shows of this load."""
PATIENCE_S = 30.0
UNMOVED = {
    "hermes_turn_resumes_total",
    "hermes_steps_uncertain_total",
    "hermes_orphans_reaped_total",
    "hermes_stale_epoch_rejections_total",
    "hermes_cron_missed_total",
    "hermes_curator_transitions_total",
    "hermes_lease_refusals_total",
    "hermes_workspaces",
    "hermes_workspace_bytes",
    "hermes_workspaces_removed_total",
    "hermes_egress_open_connections",
    "hermes_egress_bytes_total",
    "hermes_operator_uses_total",
    "hermes_batch_items_total",
}
"""What this load does not make happen; tests of what they count do."""
BRIEF = {
    "hermes_turns_active",
    "hermes_subagents_active",
    "hermes_turn_queue_oldest_seconds",
    "hermes_approvals_pending",
    "hermes_approvals_oldest_seconds",
    "hermes_outbox_pending",
    "hermes_outbox_oldest_seconds",
    "hermes_spool_bytes",
    "hermes_cron_next_due_timestamp_seconds",
}
"""What may be back at nothing when the load is over."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What was to be seen after the load."""

    texts: Mapping[str, str]
    """What each service has served."""
    idle: Mapping[str, list[float]]
    """What figures each query came to before the load."""
    panels: Mapping[str, list[float]]
    """What it has come to."""
    most: Mapping[str, float]
    """The highest values of gauges that go down again."""

    def samples(self, metric: str) -> list[float]:
        """The values of a metric, of histograms how many there were."""
        names = {metric, f"{metric}_count"}
        return [
            sample.value
            for text in self.texts.values()
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name in names
        ]


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> Observed:
    """The services after the load."""
    need_backend("bubblewrap", tmp_path_factory.mktemp("probe"))
    return asyncio.run(observe(tmp_path_factory.mktemp("load")))


async def observe(folder: Path) -> Observed:
    """Run the load, and look."""
    async with loaded(folder) as load, prometheus(folder, load.ports) as server:
        await server.until('count(up{job="hermes"} == 1) == 4', PATIENCE_S)
        idle = await shown(server)
        for number in range(ROUNDS):
            await load.one_round(number)
            await server.until("max(hermes_approvals_pending) >= 1", PATIENCE_S)
            await load.allow()
        await server.until(f"sum(hermes_approvals_total) >= {ROUNDS}", PATIENCE_S)
        await server.until("sum(hermes_cron_runs_total) >= 1", PATIENCE_S)
        await server.until("sum(hermes_reviews_total) >= 2", PATIENCE_S)
        await server.until("sum(hermes_skills) >= 1", PATIENCE_S)
        for metric in ("hermes_curator_last_run", "hermes_cron_next_due"):
            await server.until(f"max({metric}_timestamp_seconds) > 0", PATIENCE_S)
        panels = await shown(server)
        most: dict[str, float] = {}
        for metric in sorted(BRIEF):
            found = await server.query(f"max(max_over_time({metric}[10m]))")
            most[metric] = float(found[0]["value"][1]) if found else 0.0
        async with httpx.AsyncClient(trust_env=False) as client:
            texts = {
                name: (await client.get(f"http://127.0.0.1:{port}/metrics")).text
                for name, port in load.ports.items()
            }
    return Observed(texts, idle, panels, most)


async def shown(server: Prometheus) -> dict[str, list[float]]:
    """What the panels show now."""
    found: dict[str, list[float]] = {}
    for name, (expr, _) in QUERIES.items():
        figures = [float(each["value"][1]) for each in await server.query(expr.replace(RATE, "5m"))]
        found[name] = list(filter(math.isfinite, figures))
    return found


def test_every_metric_has_moved(observed: Observed) -> None:
    names = {one.name for all_ in declared().values() for one in all_} | {"hermes_build_info"}
    moved = {name for name in names if any(value > 0 for value in observed.samples(name))}
    assert names - moved - UNMOVED - BRIEF == set()


def test_what_goes_up_and_down_went_up(observed: Observed) -> None:
    quiet = {"hermes_outbox_oldest_seconds", "hermes_outbox_pending"}
    quiet.add("hermes_turn_queue_oldest_seconds")
    assert {metric for metric, value in observed.most.items() if value <= 0} <= quiet


def test_every_metric_is_declared(observed: Observed) -> None:
    known = {one.name.removesuffix("_total") for all_ in declared().values() for one in all_}
    told = {
        family.name.removesuffix("_total")
        for text in observed.texts.values()
        for family in text_string_to_metric_families(text)
    }
    of_processes = {name for name in told if name.startswith("process_")} | {"hermes_build_info"}
    assert told - known - of_processes == set()


def test_every_panel_shows_something(observed: Observed) -> None:
    assert len(observed.panels) > 60
    assert [panel for panel, figures in observed.panels.items() if not figures] == []


def test_no_time_on_a_panel_begins_in_1970(observed: Observed) -> None:
    for found in (observed.idle, observed.panels):
        times = {name: found[name] for name, (_, unit) in QUERIES.items() if unit == "s"}
        assert {name: all_ for name, all_ in times.items() if any(map(is_too_long, all_))} == {}


def is_too_long(seconds: float) -> bool:
    """Whether nothing here can have taken so long."""
    return abs(seconds) > LONGEST_S


def test_no_service_has_series_without_end(observed: Observed) -> None:
    for name, text in observed.texts.items():
        series = [line for line in text.splitlines() if line and not line.startswith("#")]
        assert len(series) < SERIES, name
