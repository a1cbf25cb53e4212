"""A turn is taken over in the very moment in which its late owner commits, on PostgreSQL."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from agent_service.records.commands import ModelAnswered, ToolReturned
from agent_service.records.events import Outcome, TurnFinished
from agent_service.records.model import ModelMessage, ToolCall
from agent_service.records.requests import TurnOptions, TurnRequest, Unattended
from agent_service.records.transition import Transition
from agent_service.records.turn_state import LiveTurn
from agent_service.storage import claims, journal, turns
from agent_service.storage.schema import message, metadata, session
from services.database.leases import new_owner

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TTL_S = 0.05
LIMITS = journal.TurnLimits(1000, timedelta(minutes=5))
OPTIONS = TurnOptions("m", max_model_calls=50, unattended=Unattended.DENY)
REQUEST = TurnRequest("trn_1", "default", "session", "hello", {"platform": "cli"}, "user")
CALLS = ModelMessage("", "", (ToolCall("c1", "terminal", "{}"),), None, "tool_calls", "m", "")
ANSWERS = ModelMessage("done", "", (), None, "stop", "m", "")


@pytest.fixture
def engine(postgres_url: str) -> Iterator[sa.Engine]:
    engine = sa.create_engine(
        postgres_url.replace("://", "+psycopg://"),
        poolclass=NullPool,
        isolation_level="READ COMMITTED",
    )
    with engine.begin() as conn:
        metadata.create_all(conn)
    yield engine
    engine.dispose()


def claimant(name: str) -> claims.Claimant:
    return claims.Claimant(new_owner(name), "", claims.turn_leases(TTL_S))


def taken(engine: sa.Engine, by: claims.Claimant) -> LiveTurn:
    with engine.begin() as conn:
        claimed = claims.claim(conn, REQUEST.turn_id, by, NOW)
        assert claimed is not None
        return journal.load(conn, claimed, LIMITS, None).turn


def commit(engine: sa.Engine, by: claims.Claimant, transition: Transition) -> None:
    with engine.begin() as conn:
        journal.commit(conn, by.leases, transition)
    transition.apply()


def test_who_takes_over_sees_all_of_the_last_commit(engine: sa.Engine) -> None:
    late, new = claimant("late"), claimant("new")
    with engine.begin() as conn:
        turns.store(conn, REQUEST, OPTIONS, turns.SessionDraft("prompt", ""), NOW)
    answered = Transition.from_facts(taken(engine, late), (ModelAnswered(1, CALLS),), NOW)
    with ExitStack() as stack:
        committing = stack.enter_context(engine.connect())
        journal.commit(committing, late.leases, answered)
        pool = stack.enter_context(ThreadPoolExecutor(1))
        claim = pool.submit(taken, engine, new)
        with pytest.raises(TimeoutError):
            claim.result(timeout=10 * TTL_S)  # until the late owner has committed
        committing.commit()
        turn = claim.result(timeout=10)
    (call,) = turn.pending.values()
    commit(engine, new, Transition.from_facts(turn, (ToolReturned(call, "ok"),), NOW))
    ended = (ModelAnswered(2, ANSWERS), TurnFinished(Outcome.COMPLETED, text="done"))
    commit(engine, new, Transition.from_facts(turn, ended, NOW))
    with engine.connect() as conn:
        assert conn.execute(sa.select(session.c.message_count)).scalar_one() == 4
        roles = conn.execute(sa.select(message.c.role).order_by(message.c.sequence)).scalars()
        assert list(roles) == ["user", "assistant", "tool", "assistant"]
