"""What waits, in its order, and what the agent's gauges read of it and of budgets."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa
from prometheus_client import CollectorRegistry

from agent_service.records.budget import Amount, Policy, Scope
from agent_service.records.events import CLARIFY
from agent_service.records.requests import SUBAGENT, TurnOptions, TurnRequest
from agent_service.storage import budgets, turns
from agent_service.storage.activity import Waiting, waiting
from agent_service.storage.budgets import used_ratios
from agent_service.storage.schema import approval, metadata, model_usage, session, turn
from agent_service.turns.metrics import Gauges
from services.database import Database
from services.telemetry.metrics import Meter

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
DAY, BEFORE = "2026-11-23", "2026-11-22"


@pytest.fixture
async def tables(database: Database) -> Database:
    await database.migrate(metadata.create_all)
    return database


def stored(conn: sa.Connection, turn_id: str, session_id: str, at: datetime) -> None:
    request = TurnRequest(turn_id, "default", session_id, "hi", {"platform": "cli"}, "user")
    turns.store(conn, request, TurnOptions("scripted"), turns.SessionDraft("", ""), at)


def asked(conn: sa.Connection, number: int, tool: str, minutes: int, decision: str | None) -> None:
    conn.execute(
        sa.insert(approval).values(
            id=f"apr_{number}",
            profile="default",
            session_id="one",
            turn_id="first",
            call_id="call",
            tool=tool,
            subject="rm",
            decision=decision,
            decided_by="",
            created_at=NOW - timedelta(minutes=minutes),
            expires_at=NOW,
        )
    )


async def test_the_oldest_of_what_waits_is_found(tables: Database) -> None:
    assert await tables.read(waiting) == Waiting(None, 0, None)

    def write(conn: sa.Connection) -> None:
        stored(conn, "first", "one", NOW - timedelta(minutes=9))
        stored(conn, "second", "two", NOW - timedelta(minutes=5))
        asked(conn, 1, "terminal", 30, "once")
        asked(conn, 2, CLARIFY, 20, None)
        asked(conn, 3, "terminal", 10, None)
        asked(conn, 4, "terminal", 2, None)

    await tables.write(write)
    found = await tables.read(waiting)
    assert found == Waiting(NOW - timedelta(minutes=9), 2, NOW - timedelta(minutes=10))
    registry = CollectorRegistry()
    gauges = Gauges.create(Meter(registry))
    gauges.waits(found, NOW)
    shown = {
        "hermes_turn_queue_oldest_seconds": 540,
        "hermes_approvals_pending": 2,
        "hermes_approvals_oldest_seconds": 600,
    }
    assert {name: registry.get_sample_value(name) for name in shown} == shown
    gauges.waits(Waiting(None, 0, None), NOW)
    assert {name: registry.get_sample_value(name) for name in shown} == dict.fromkeys(shown, 0)


def used(
    conn: sa.Connection, session_id: str, micro_usd: int, day: str = DAY, job_id: str = ""
) -> None:
    nothing = dict.fromkeys(
        ("completion_tokens", "cached_tokens", "cache_write_tokens", "reasoning_tokens"), 0
    )
    conn.execute(
        sa.insert(model_usage).values(
            session_id=session_id,
            model="m",
            day=day,
            profile="default",
            job_id=job_id,
            prompt_tokens=10,
            cost_micro_usd=micro_usd,
            call_count=1,
            **nothing,
        )
    )


def subagent(conn: sa.Connection, session_id: str, parent: str) -> None:
    """Make a session that another one has handed work over to."""
    made = sa.update(session).where(session.c.id == session_id)
    conn.execute(made.values(platform=SUBAGENT, parent_session_id=parent))


async def ratios(database: Database, **limits: int) -> dict[Scope, float]:
    policy = Policy({Scope(name): Amount(micro_usd=limit) for name, limit in limits.items()})
    return dict(await database.read(lambda conn: used_ratios(conn, policy, DAY)))


async def test_the_budget_that_is_nearest_to_its_limit_counts(tables: Database) -> None:
    assert await ratios(tables, day=100, session=10) == {Scope.DAY: 0, Scope.SESSION: 0}
    sessions: Sequence[str] = ("one", "two", "part")

    def write(conn: sa.Connection) -> None:
        for name in sessions:
            stored(conn, f"turn-{name}", name, NOW)
        subagent(conn, "part", "two")
        used(conn, "one", 30)
        used(conn, "two", 20)
        used(conn, "two", 5, BEFORE)
        used(conn, "part", 10)
        used(conn, "gone", 500, BEFORE)
        used(conn, "run-1", 3, job_id="tea")
        used(conn, "run-2", 4, BEFORE, job_id="tea")

    await tables.write(write)
    found = await ratios(tables, profile=1000, day=100, session=50, job=10)
    assert found == {
        Scope.PROFILE: 0.572,
        Scope.DAY: 0.63,
        Scope.SESSION: 0.7,  # of the one that has a subagent
        Scope.JOB: 0.7,
    }


async def test_a_budget_that_somebody_set_counts_without_any_in_the_settings(
    tables: Database,
) -> None:
    assert await ratios(tables) == {}

    def write(conn: sa.Connection) -> None:
        used(conn, "one", 30)
        budgets.set_limit(conn, "default", Scope.DAY, "", Amount(micro_usd=40, tokens=20))

    await tables.write(write)
    assert await ratios(tables) == {Scope.DAY: 0.75}


async def test_turns_keep_their_order_where_the_clock_goes_back(tables: Database) -> None:
    def write(conn: sa.Connection) -> list[str]:
        for number in range(3):
            stored(conn, f"turn-{number}", "one", NOW - number * timedelta(days=1))
        return list(conn.scalars(sa.select(turn.c.id).order_by(turn.c.created_at, turn.c.id)))

    assert await tables.write(write) == ["turn-0", "turn-1", "turn-2"]
