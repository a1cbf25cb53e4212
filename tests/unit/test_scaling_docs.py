"""The examples of the scaling guide come to what it says, with the limits that the code has."""

from math import ceil

import yaml

from agent_service.turns import HOT_BYTES, HOT_SESSIONS
from executor_service.config import BoxConfig, ExecutorConfig
from services.database import postgresql
from tests.markdown import ROOT, page

TEXT = " ".join(page(ROOT / "docs/scaling.md").text.split())
POOL = vars(postgresql)["_CONNECTIONS"]
GIB = 2**30


def agents_for(turns_per_s: float, commands: float) -> int:
    return ceil(turns_per_s * (1 + 0.88 * commands) / 38) + 1


def connections(agents: int, gateways: int, schedulers: int) -> int:
    listening = POOL + 1
    upgrade = POOL + 2 * listening + 2
    return POOL * agents + listening * (gateways + schedulers) + upgrade + 10


def test_turns() -> None:
    assert round(170 / 90.6 - 1, 2) == 0.88
    agents = agents_for(20_000 * 6 / 3600 * 3, 1)
    assert f"**{agents} agents**" in TEXT
    of_jobs_s = 10_000 / ((agents - 1) * 38)
    assert f"38) = {of_jobs_s:.0f} s if one is away" in TEXT


def test_memory() -> None:
    assert f"keeps the {HOT_SESSIONS} conversations" in TEXT
    assert f"at most {HOT_BYTES // 10**6} MB of them" in TEXT
    assert f"**{115 + 0.049 * min(4000 // 6, HOT_SESSIONS):.0f} MB**" in TEXT
    assert f"at most {115 + HOT_BYTES // 10**6} MB" in TEXT


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
    assert f"= **{connections(6, 2, 2)}**" in TEXT
    chart = yaml.safe_load((ROOT / "helm/hermes/values.yaml").read_text("utf-8"))
    agents, gateways, schedulers = (
        chart[each]["replicas"] for each in ("agent", "gateway", "scheduler")
    )
    assert f"come to **{connections(agents, gateways, schedulers)}**" in TEXT
