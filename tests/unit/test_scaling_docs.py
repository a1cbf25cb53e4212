"""The scaling guide says what benchmarks.md has, and its examples come to what it says."""

import re
from math import ceil

import yaml

from agent_service.turns import HOT_BYTES, HOT_SESSIONS
from executor_service.config import BoxConfig, ExecutorConfig
from services.database import postgresql
from tests.markdown import ROOT, page

GUIDE = page(ROOT / "docs/scaling.md").text
SIGNS = {ord("\N{MULTIPLICATION SIGN}"): "x", ord("\N{MINUS SIGN}"): "-"}
TEXT = " ".join(GUIDE.translate(SIGNS).split())
MEASURED = page(ROOT / "docs/benchmarks.md").text.partition("## Figures of two days")[2]
HERMES, EXECUTOR, SCHEDULER = re.split(r"^`make bench-\w+`", MEASURED, flags=re.M)
POOL = vars(postgresql)["_CONNECTIONS"]
GIB = 2**30


def rows(text: str) -> list[list[str]]:
    """The cells of the lines of its tables."""
    lines = re.findall(r"^\|(.+)\|$", text, re.M)
    return [[cell.strip() for cell in line.split("|")] for line in lines]


def figures(text: str) -> dict[str, tuple[float, ...]]:
    """What was measured by name: the middle or only value, and the slow end if there is one."""
    found = dict[str, tuple[float, ...]]()
    for named, *values in rows(text):
        columns = filter(None, map(numbers, values[:2]))
        names = re.findall(r"`(\w+)`", named)
        found |= dict(zip(names, zip(*columns, strict=True), strict=False))
    return found


def numbers(text: str) -> list[float]:
    """Those that do not stand in brackets."""
    bare = re.sub(r"\(.*?\)", "", text)
    return [float(each.replace(",", "")) for each in re.findall(r"\d[\d,]*(?:\.\d+)?", bare)]


FIGURES = figures(HERMES) | figures(SCHEDULER)
PLAIN, WITH_COMMAND = (FIGURES[f"{each}turns_per_s_64"][0] for each in ("", "command_"))
COMMAND = round(PLAIN / WITH_COMMAND - 1, 2)
IDLE_MB, SESSION_MB = round(FIGURES["idle_rss_mb"][0]), FIGURES["session_rss_mb"][0]
AGENT = int(re.findall(r"the agent ended (\d+) turns in a second", SCHEDULER)[0])


def test_what_was_measured() -> None:
    named = 0
    for what, said, by in rows(GUIDE):
        names = re.findall(r"`(\w+)`", by)
        named += len(names)
        slow_end = "(p95)" in said
        values = re.findall(r"[\d.]+", said.partition("(")[0])
        for name, value in zip(names, values, strict=bool(names)):
            decimals = len(value.partition(".")[2])
            assert f"{FIGURES[name][slow_end]:.{decimals}f}" == value, (what, name)
    assert named >= 18
    assert f"| {AGENT} a second | `make bench-scheduler` |" in TEXT


def test_turns() -> None:
    assert f"{COMMAND} times what a plain turn does ({PLAIN} ÷ {WITH_COMMAND} - 1)" in TEXT
    assert f"`T x (1 + {COMMAND} x c)` is at most {int(PLAIN / 2)}, half" in TEXT
    assert f"replaced; {AGENT} is what one did" in TEXT
    assert f"agents = ⌈T x (1 + {COMMAND} x c) ÷ {AGENT}⌉ + 1" in TEXT
    turns_per_s = 20_000 * 6 / 3600 * 3 * (1 + COMMAND)
    needed = ceil(turns_per_s / AGENT)
    assert f"{needed} + 1 = **{needed + 1} agents**" in TEXT
    assert f"÷ (5 x {AGENT}) = {10_000 / (5 * AGENT):.0f} s if one is away" in TEXT
    assert f"{needed + 1} agents, 2 gateways and 2 schedulers" in TEXT
    assert f"= **{connections(needed + 1, 2, 2)}**" in TEXT


def connections(agents: int, gateways: int, schedulers: int) -> int:
    listening = POOL + 1
    upgrade = POOL + 2 * listening + 2
    return POOL * agents + listening * (gateways + schedulers) + upgrade + 10


def test_memory() -> None:
    assert f"keeps the {HOT_SESSIONS} conversations" in TEXT
    assert f"at most {HOT_BYTES // 10**6} MB of them" in TEXT
    assert f"MB of an agent = {IDLE_MB} + {SESSION_MB} x min" in TEXT
    agents = int(re.findall(r"in use at (\d+) agents", TEXT)[0])
    used = IDLE_MB + SESSION_MB * min(4000 // agents, HOT_SESSIONS)
    assert f"**{used:.0f} MB**, and at most {IDLE_MB + HOT_BYTES // 10**6} MB" in TEXT


def test_sandboxes() -> None:
    default = {name: field.default for name, field in ExecutorConfig.model_fields.items()}
    most, warm = default["max_sandboxes"], default["warm_pool_size"]
    assert f"(`executor.warm_pool_size`, {warm})" in TEXT
    assert f"at most {most} (`executor.max_sandboxes`)" in TEXT
    assert default["idle_timeout_s"] == 30 * 60
    each = BoxConfig.model_fields["memory_bytes"].default // GIB
    executors = ceil(60 / (most - warm)) + 1
    assert f"⌈60 ÷ {most - warm}⌉ + 1 = **{executors} executors**" in TEXT
    assert f"**{(60 + executors * warm) * each} GiB**" in TEXT


def test_connections() -> None:
    assert f"at most {POOL} connections" in TEXT
    chart = yaml.safe_load((ROOT / "helm/hermes/values.yaml").read_text("utf-8"))
    agents, gateways, schedulers = (
        chart[each]["replicas"] for each in ("agent", "gateway", "scheduler")
    )
    assert f"come to **{connections(agents, gateways, schedulers)}**" in TEXT
