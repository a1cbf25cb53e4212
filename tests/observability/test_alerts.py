"""Every alert fires when it should and not else, and somebody woken by it knows what to do."""

import re
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any

import yaml

from tests.observability.dashboards import ROOT, RULES
from tests.observability.declared import BY_LABELS, OURS, SUFFIX, declared
from tests.support.requirements import require

CASES = Path(__file__).with_name("alerts.yml")
RUNBOOKS = ROOT / "docs/operators/runbooks.md"
COMPOSE = ROOT / "docker" / "prometheus" / "prometheus.yml"


def alerts() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text("utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def promtool(*arguments: str, cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
    found = shutil.which("promtool")
    require("prometheus", found is not None, "apt install prometheus")
    assert found is not None
    return subprocess.run([found, *arguments], capture_output=True, text=True, cwd=cwd, check=False)


def judged(folder: Path, rules: str) -> "subprocess.CompletedProcess[str]":
    """The cases, run with these rules."""
    (folder / "rules.yml").write_text(rules, "utf-8")
    shutil.copy(CASES, folder)
    return promtool("test", "rules", CASES.name, cwd=folder)


def test_alerts_fire_when_they_should(tmp_path: Path) -> None:
    done = judged(tmp_path, RULES.read_text("utf-8"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_has_a_case_of_either_kind() -> None:
    cases: defaultdict[str, set[str]] = defaultdict(set)
    for case in yaml.safe_load(CASES.read_text("utf-8"))["tests"]:
        name, kind = case["name"].split()[:2]
        tested = case["alert_rule_test"]
        assert {one["alertname"] for one in tested} == {name}
        assert any(one.get("exp_alerts") for one in tested) is (kind == "fires"), case["name"]
        cases[name].add(kind)
    assert cases == {alert["alert"]: {"fires", "quiet"} for alert in alerts()}


def test_each_alert_has_a_runbook_that_it_names() -> None:
    _, *sections = RUNBOOKS.read_text("utf-8").split("\n## ")
    runbooks = dict(section.split("\n", 1) for section in sections)
    assert runbooks.keys() == {alert["alert"] for alert in alerts()}
    for alert in alerts():
        name = alert["alert"]
        assert alert["annotations"]["runbook_url"] == f"docs/operators/runbooks.md#{name.lower()}"
        for step in ("\n**Check.**", "\n**Fix.**"):
            assert step in runbooks[name], name


def test_the_table_of_alerts_has_them_all() -> None:
    page = (ROOT / "docs/operators/observability.md").read_text("utf-8")
    rows = re.findall(r"^\| \[(\w+)\]\(runbooks\.md#\w+\) \| (\w+) \|", page, re.MULTILINE)
    assert dict(rows) == {alert["alert"]: alert["labels"]["severity"] for alert in alerts()}


def test_alerts_are_about_metrics_that_there_are() -> None:
    known = {one.name for metrics in declared().values() for one in metrics}
    for alert in alerts():
        labels = BY_LABELS.sub("", alert["expr"])
        for name in OURS.findall(labels):
            assert name in known or SUFFIX.sub("", name) in known, (alert["alert"], name)


def test_prometheus_takes_what_compose_gives_it(tmp_path: Path) -> None:
    config = COMPOSE.read_text("utf-8").replace("/etc/hermes/rules", str(RULES.parent))
    (tmp_path / "prometheus.yml").write_text(config, "utf-8")
    done = promtool("check", "config", str(tmp_path / "prometheus.yml"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(alerts())} rules found" in done.stdout
    (job,) = yaml.safe_load(COMPOSE.read_text("utf-8"))["scrape_configs"]
    assert job["job_name"] == "hermes"
    assert job["honor_labels"] is True
    targets = {each["labels"]["service"]: each["targets"] for each in job["static_configs"]}
    assert targets == {
        name: [f"{name}:9464"] for name in ("agent", "executor", "gateway", "scheduler")
    }
