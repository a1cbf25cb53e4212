"""Dashboards of Grafana and alert rules of Prometheus, from the chart, which compose mounts."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "helm/hermes/dashboards"
RULES = ROOT / "helm/hermes/rules/hermes.yaml"
RATE = "$__rate_interval"
"""Grafana puts a time in its place that holds at least four scrapes."""


class Panel(Struct, frozen=True):
    """What a panel shows."""

    dashboard: str
    title: str
    about: str
    queries: tuple[str, ...]


def panels() -> Iterator[Panel]:
    """Those of all dashboards."""
    for path in sorted(FOLDER.glob("*.json")):
        found: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["panels"]
        for each in found:
            if each["type"] != "row":
                yield Panel(
                    path.stem,
                    each["title"],
                    each["description"],
                    tuple(target["expr"] for target in each["targets"]),
                )


PANELS = tuple(panels())
