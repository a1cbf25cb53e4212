"""Reservations in the database: who holds one, and when it stops to count."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
import sqlalchemy as sa

from agent_service.records.budget import Account, Amount, BudgetStatus, Policy, Scope
from agent_service.records.requests import TurnOptions, TurnRequest
from agent_service.storage import budgets, claims, turns
from agent_service.storage.budgets import Holder
from agent_service.storage.claims import Claimant, turn_leases
from agent_service.storage.schema import budget_reservation, metadata, turn
from services.database import Database
from services.database.leases import Fenced, Lease, new_owner

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
DAY = "2026-11-23"
LEASES = turn_leases(30)
POLICY = Policy({Scope.DAY: Amount(tokens=100), Scope.JOB: Amount(micro_usd=10)})
_EXPIRE = (
    sa.update(turn)
    .where(turn.c.id == sa.bindparam("which"))
    .values(lease_until=datetime(2000, 1, 1, tzinfo=UTC))
)
SIXTY = Amount(micro_usd=6, tokens=60)

Outcome = tuple[list[BudgetStatus], BudgetStatus | None]


@pytest.fixture
async def tables(database: Database) -> Database:
    await database.migrate(metadata.create_all)
    return database


def claimant(instance: str) -> Claimant:
    return Claimant(new_owner(instance), "", LEASES)


async def begun(database: Database, turn_id: str, who: Claimant) -> Lease:
    request = TurnRequest(turn_id, "default", turn_id, "hi", {"platform": "cli"}, "user")

    def begin(conn: sa.Connection) -> Lease:
        turns.store(conn, request, TurnOptions("scripted"), turns.SessionDraft("", ""), NOW)
        claimed = claims.claim(conn, turn_id, who, NOW)
        assert claimed is not None
        return claimed.lease

    return await database.write(begin)


def reserving(
    lease: Lease, asked: Amount = SIXTY, job_id: str = "", day: str = DAY, name: str = ""
) -> Callable[[sa.Connection], Outcome]:
    account = Account("default", lease.id, job_id, day)
    holder = Holder(lease.id, name, lease)
    return lambda conn: budgets.reserve(conn, LEASES, holder, account, asked, POLICY)


def held(conn: sa.Connection) -> dict[str, int]:
    return {row.turn_id: row.tokens for row in conn.execute(sa.select(budget_reservation))}


async def test_what_one_holds_another_cannot_have(tables: Database) -> None:
    mine = claimant("a")
    one, other = await begun(tables, "one", mine), await begun(tables, "other", mine)
    _, refusing = await tables.write(reserving(one))
    assert refusing is None
    (stood,), refusing = await tables.write(reserving(other))
    assert refusing == stood
    assert (stood.reserved.tokens, stood.spent.tokens) == (60, 0)
    assert "60 tokens reserved by running calls" in stood.refusal(SIXTY)
    # Again is instead of, and another day is another budget.
    _, again = await tables.write(reserving(one, Amount(tokens=90)))
    _, tomorrow = await tables.write(reserving(other, day="2026-11-24"))
    assert (again, tomorrow) == (None, None)
    assert await tables.read(held) == {"one": 90, "other": 60}
    await tables.write(lambda conn: budgets.settle(conn, "one", ""))
    assert await tables.read(held) == {"other": 60}


async def test_calls_side_by_side_hold_something_each(tables: Database) -> None:
    one = await begun(tables, "one", claimant("a"))
    forty = Amount(tokens=40)
    _, first = await tables.write(reserving(one, forty, name="first"))
    _, second = await tables.write(reserving(one, forty, name="second"))
    _, third = await tables.write(reserving(one, forty, name="third"))
    assert (first, second) == (None, None)
    assert third is not None
    await tables.write(lambda conn: budgets.settle(conn, "one", "first"))
    _, again = await tables.write(reserving(one, forty, name="third"))
    assert again is None
    await tables.write(lambda conn: budgets.settle_all(conn, "one"))
    assert await tables.read(held) == {}


async def test_a_call_outside_of_turns_holds_something_for_some_time(tables: Database) -> None:
    one = await begun(tables, "one", claimant("a"))
    account = Account("default", "one", "", DAY)

    def holding(for_s: float) -> Callable[[sa.Connection], Outcome]:
        holder = Holder("title", for_s=for_s)
        return lambda conn: budgets.reserve(conn, LEASES, holder, account, SIXTY, POLICY)

    assert (await tables.write(holding(60.0)))[1] is None
    (stood,), refusing = await tables.write(reserving(one))
    assert refusing == stood
    assert stood.reserved.tokens == 60
    await tables.write(lambda conn: budgets.settle(conn, "title", ""))
    assert (await tables.write(reserving(one)))[1] is None
    # And the other way round.
    assert (await tables.write(holding(60.0)))[1] is not None
    await tables.write(lambda conn: budgets.settle_all(conn, "one"))
    # What nobody has counted in time counts no more.
    assert (await tables.write(holding(-1.0)))[1] is None
    assert (await tables.write(reserving(one)))[1] is None
    assert await tables.read(held) == {"one": 60}


async def test_a_job_is_charged_over_all_its_runs(tables: Database) -> None:
    mine = claimant("a")
    first, second = await begun(tables, "first", mine), await begun(tables, "second", mine)
    await tables.write(reserving(first, Amount(micro_usd=6), job_id="job"))
    found, refusing = await tables.write(reserving(second, Amount(micro_usd=6), job_id="job"))
    assert [one.scope for one in found] == [Scope.JOB, Scope.DAY]
    assert refusing is not None
    assert refusing.scope is Scope.JOB
    _, of_another = await tables.write(reserving(second, Amount(micro_usd=6), job_id="another"))
    assert of_another is None


async def test_what_a_killed_owner_holds_ends_with_its_lease(tables: Database) -> None:
    killed, alive = claimant("a"), claimant("b")
    lost = await begun(tables, "lost", killed)
    await tables.write(reserving(lost))
    other = await begun(tables, "other", alive)
    assert (await tables.write(reserving(other)))[1] is not None
    # As at the start of the same instance's next life, or when the time is up.
    await tables.write(lambda conn: conn.execute(_EXPIRE, {"which": "lost"}))
    assert (await tables.write(reserving(other)))[1] is None
    assert await tables.read(held) == {"other": 60}


async def test_a_new_owner_does_not_count_what_the_old_one_held(tables: Database) -> None:
    killed, alive = claimant("a"), claimant("b")
    lost = await begun(tables, "lost", killed)
    await tables.write(reserving(lost))
    await tables.write(lambda conn: conn.execute(_EXPIRE, {"which": "lost"}))
    taken = await tables.write(lambda conn: claims.claim(conn, "lost", alive, NOW))
    assert taken is not None
    assert taken.lease.epoch == 2
    other = await begun(tables, "other", alive)
    assert (await tables.write(reserving(other)))[1] is None
    with pytest.raises(Fenced):
        await tables.write(reserving(lost))
    (stood,), refusing = await tables.write(reserving(taken.lease))
    assert refusing == stood
