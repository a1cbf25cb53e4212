"""What all dashboards have in common: how a panel is laid out, and where its figures come from."""

from collections.abc import Sequence
from dataclasses import dataclass

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, timeseries
from grafana_foundation_sdk.models.common import LegendDisplayMode, LegendPlacement
from grafana_foundation_sdk.models.dashboard import Dashboard, DataSourceRef

_SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
_WIDTH, _STAT_WIDTH, _HEIGHT, _STAT_HEIGHT = 8, 4, 8, 4
RATE = "$__rate_interval"
"""Grafana puts a time in its place that holds at least four scrapes."""


@dataclass(frozen=True, slots=True)
class Query:
    """A PromQL expression, and what its lines are called."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel; its unit is Grafana's name of it."""

    title: str
    about: str
    queries: Sequence[Query]
    unit: str = "short"
    is_stat: bool = False


def graph(title: str, about: str, *queries: Query, unit: str = "short") -> Panel:
    """A panel of lines over time."""
    return Panel(title, about, queries, unit)


def figure(title: str, about: str, *queries: Query, unit: str = "short") -> Panel:
    """A panel of the newest values."""
    return Panel(title, about, queries, unit, is_stat=True)


def quantiles(metric: str, *by: str, of: Sequence[float] = (0.5, 0.99)) -> tuple[Query, ...]:
    """The quantiles of a histogram, a line for each and whatever it is told apart by."""
    named = " ".join(f"{{{{{label}}}}}" for label in by)
    labels = ", ".join(("le", *by))
    return tuple(
        Query(
            f"histogram_quantile({share}, sum by ({labels}) (rate({metric}_bucket[{RATE}])))",
            f"{named} p{share * 100:g}".strip(),
        )
        for share in of
    )


def rate(metric: str, *by: str) -> Query:
    """How fast a counter grows, by labels."""
    return Query(f"sum by ({', '.join(by)}) (rate({metric}[{RATE}]))", _named(by, metric))


def latest(metric: str, *by: str, how: str = "sum") -> Query:
    """What a gauge shows, by labels; replicas that show the same have `how` as `max`."""
    return Query(f"{how} by ({', '.join(by)}) ({metric})", _named(by, metric))


def _named(by: Sequence[str], metric: str) -> str:
    return " ".join(f"{{{{{label}}}}}" for label in by) or metric


def built(uid: str, title: str, about: str, panels: Sequence[Panel]) -> Dashboard:
    """A dashboard: figures in the first rows, graphs below."""
    builder = (
        dashboard.Dashboard(title)
        .uid(uid)
        .description(about)
        .tags(["hermes"])
        .refresh("30s")
        .time("now-6h", "now")
        .timezone("browser")
        .readonly()
        .with_variable(
            dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus")
        )
    )
    builder = builder.with_row(dashboard.Row("Now"))
    for panel in panels:
        if panel.is_stat:
            builder = builder.with_panel(_figure(panel))
    builder = builder.with_row(dashboard.Row("Over time"))
    for panel in panels:
        if not panel.is_stat:
            builder = builder.with_panel(_graph(panel))
    return builder.build()


def _graph(panel: Panel) -> timeseries.Panel:
    legend = (
        common.VizLegendOptions()
        .display_mode(LegendDisplayMode.LIST)
        .placement(LegendPlacement.BOTTOM)
        .show_legend(True)
    )
    made = (
        timeseries.Panel()
        .title(panel.title)
        .description(panel.about)
        .unit(panel.unit)
        .min(0)
        .span(_WIDTH)
        .height(_HEIGHT)
        .datasource(_SOURCE)
        .legend(legend)
        .fill_opacity(8)
    )
    for letter, query in zip("ABCDEF", panel.queries, strict=False):
        made = made.with_target(_target(letter, query))
    return made


def _figure(panel: Panel) -> stat.Panel:
    made = (
        stat.Panel()
        .title(panel.title)
        .description(panel.about)
        .unit(panel.unit)
        .span(_STAT_WIDTH)
        .height(_STAT_HEIGHT)
        .datasource(_SOURCE)
    )
    for letter, query in zip("ABCDEF", panel.queries, strict=False):
        made = made.with_target(_target(letter, query).instant())
    return made


def _target(letter: str, query: Query) -> prometheus.Dataquery:
    target = prometheus.Dataquery().ref_id(letter).expr(query.expr)
    return target.legend_format(query.legend) if query.legend else target
