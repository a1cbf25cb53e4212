"""The dashboards leave no metric out, name none that is not there, and ask what can be asked."""

import json
from pathlib import Path

from tests.observability.dashboards import PANELS, RATE
from tests.observability.declared import BY_LABELS, OURS, SUFFIX, declared
from tests.observability.test_alerts import promtool

OFF = {
    *("hermes_egress_bytes_total", "hermes_egress_open_connections", "hermes_lease_refusals_total"),
    *("hermes_operator_uses_total", "hermes_workspace_bytes", "hermes_workspaces_removed_total"),
}
"""What is looked at when there is a question."""


def test_every_metric_is_on_a_panel() -> None:
    text = "\n".join(query for panel in PANELS for query in panel.queries)
    names = {one.name for metrics in declared().values() for one in metrics}
    assert {name for name in names if name not in text} == OFF


def test_panels_are_about_metrics_that_there_are() -> None:
    known = {one.name for metrics in declared().values() for one in metrics}
    known.add("hermes_build_info")
    for panel in PANELS:
        for name in OURS.findall(BY_LABELS.sub("", " ".join(panel.queries))):
            assert name in known or SUFFIX.sub("", name) in known, (panel.title, name)


def test_panels_say_what_they_show() -> None:
    assert len({(panel.dashboard, panel.title) for panel in PANELS}) == len(PANELS) > 40
    for panel in PANELS:
        assert panel.about.endswith((".", "?")), panel.title
        assert 1 <= len(panel.queries) <= 6, panel.title


def test_prometheus_takes_the_queries(tmp_path: Path) -> None:
    queries = [query.replace(RATE, "5m") for panel in PANELS for query in panel.queries]
    rules = [{"record": f"panel:{number}", "expr": query} for number, query in enumerate(queries)]
    groups = {"groups": [{"name": "panels", "rules": rules}]}
    (tmp_path / "rules.yml").write_text(json.dumps(groups), "utf-8")
    done = promtool("check", "rules", str(tmp_path / "rules.yml"))
    assert done.returncode == 0, done.stdout + done.stderr
