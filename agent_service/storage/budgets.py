"""Budgets in the database: limits, spending, and reservations of running calls."""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import Connection, bindparam

from agent_service.records.budget import Account, Amount, BudgetStatus, Policy, Scope
from agent_service.records.requests import REVIEW, SUBAGENT
from agent_service.storage.schema import (
    budget_gate,
    budget_limit,
    budget_reservation,
    model_usage,
    session,
    turn,
)
from services.database import Prepared, db_now, insert_ignore, upsert, upsert_sum
from services.database.leases import Lease, LeaseTable

Limits = Mapping[tuple[Scope, str], Amount]
"""Limits that people have set, by scope and id; an empty id means each."""

_PASS = Prepared(upsert_sum(budget_gate, ("profile",), ("passed",)))
_LIMITS = sa.select(budget_limit).where(budget_limit.c.profile == bindparam("profile"))
_LIMITED = Prepared(sa.select(budget_limit.c.profile).distinct())
_RESERVE = Prepared(
    upsert(budget_reservation, ("turn_id", "name"), ("epoch", "day", "micro_usd", "tokens"))
)
_OF_TURN = sa.delete(budget_reservation).where(budget_reservation.c.turn_id == bindparam("turn"))
_SETTLE_ALL = Prepared(_OF_TURN)
_SETTLE = Prepared(_OF_TURN.where(budget_reservation.c.name == bindparam("reservation")))
_OWNED = (
    sa.select(turn.c.id)
    .where(
        turn.c.id == budget_reservation.c.turn_id,
        turn.c.epoch == budget_reservation.c.epoch,
        turn.c.lease_until >= db_now(),
    )
    .correlate(budget_reservation)
    .exists()
)
"""The reservation's owner is alive and still has the turn."""
_held_until = budget_reservation.c.held_until
_IN_FORCE = sa.or_(_OWNED, sa.and_(_held_until.is_not(None), _held_until >= db_now()))
_SWEEP = sa.delete(budget_reservation).where(
    budget_reservation.c.profile == bindparam("profile"), ~_IN_FORCE
)

_SUBAGENTS = sa.select(session.c.id).where(
    session.c.parent_session_id == bindparam("scope_id"), session.c.platform.in_((SUBAGENT, REVIEW))
)
"""The sessions of a session's subagents and reviews."""


def _standing(column: str) -> sa.Select[Any, Any, Any, Any]:
    """Select spent and reserved amounts of a scope in one statement, and so in one snapshot."""

    def whole(column: sa.ColumnElement[int], name: str) -> sa.Label[int]:
        return sa.cast(sa.func.coalesce(sa.func.sum(column), 0), sa.BigInteger).label(name)

    used, held = model_usage.c, budget_reservation.c
    is_used = used[column] == bindparam("scope_id")
    if column == "session_id":
        is_used |= used.session_id.in_(_SUBAGENTS)
    spent = (
        sa.select(
            whole(used.cost_micro_usd, "micro_usd"),
            whole(used.prompt_tokens + used.completion_tokens, "tokens"),
        )
        .where(used.profile == bindparam("profile"), is_used)
        .subquery("spent")
    )
    reserved = (
        sa.select(whole(held.micro_usd, "micro_usd"), whole(held.tokens, "tokens"))
        .where(
            held.profile == bindparam("profile"),
            held[column] == bindparam("scope_id"),
            sa.or_(held.turn_id != bindparam("turn"), held.name != bindparam("reservation")),
            _IN_FORCE,
        )
        .subquery("reserved")
    )
    return sa.select(
        spent.c.micro_usd, spent.c.tokens, reserved.c.micro_usd, reserved.c.tokens
    ).select_from(spent.join(reserved, sa.true()))


_STANDING = {
    Scope.PROFILE: _standing("profile"),
    Scope.SESSION: _standing("session_id"),
    Scope.JOB: _standing("job_id"),
    Scope.DAY: _standing("day"),
}


class Holder(Struct, frozen=True):
    """The holder of a reservation: a call of a turn, or one outside of turns."""

    id: str
    """The turn's id, or one of its own."""
    name: str = ""
    """Distinguishes parallel calls of a turn; empty for the conversation's own call."""
    lease: Lease | None = None
    """The turn's lease: the reservation counts while its owner is alive."""
    for_s: float = 0.0
    """How long it counts outside of turns."""


_NOBODY = Holder("")


def limited_profiles(conn: Connection) -> frozenset[str]:
    """Return the profiles for which somebody set a budget."""
    return frozenset(_LIMITED.rows(conn, {}).scalars())


def set_limit(
    conn: Connection,
    profile: str,
    scope: Scope,
    scope_id: str,
    limit: Amount | None,
    *,
    keeps_set: bool = False,
) -> None:
    """Set a budget, or reset it to config.yaml; with `keeps_set` an existing one stays."""
    which = {"profile": profile, "scope": scope.value, "scope_id": scope_id}
    if limit is not None:
        key, amounts = tuple(which), {"micro_usd": limit.micro_usd, "tokens": limit.tokens}
        put = insert_ignore(budget_limit) if keeps_set else upsert(budget_limit, key, (*amounts,))
        conn.execute(put, which | amounts)
    elif not keeps_set:
        conn.execute(sa.delete(budget_limit).filter_by(**which))


def every_limit(conn: Connection, account: Account, policy: Policy) -> list[BudgetStatus]:
    """Return all limits of a profile, with their use if they apply to one thing."""
    limits = _limits(conn, account.profile)
    each = [(scope, "") for scope in Scope if policy.limits.get(scope)]
    mine = [(s, account.id_in(s)) for s in (Scope.SESSION, Scope.JOB) if account.id_in(s)]
    keys = sorted({*limits, *each, *(key for key in mine if _limit_of(*key, limits, policy))})
    return [
        _counted(conn, _as_standing(scope, scope_id, limits, policy), account)
        for scope, scope_id in keys
    ]


def reserve(
    conn: Connection,
    leases: LeaseTable,
    holder: Holder,
    account: Account,
    asked: Amount,
    policy: Policy,
) -> tuple[list[BudgetStatus], BudgetStatus | None]:
    """Reserve an amount; return the budgets as they were before, and the one that refuses."""
    lease, held_until = holder.lease, None
    if lease is not None:
        leases.fence(conn, lease)
    _PASS.run(conn, {"profile": account.profile, "passed": 1})
    conn.execute(_SWEEP, {"profile": account.profile})
    limits = _limits(conn, account.profile)
    applying = [_applying(scope, account, limits, policy) for scope in Scope]
    found = [_counted(conn, one, account, holder) for one in applying if one is not None]
    refusing = next((one for one in found if not one.has_room_for(asked)), None)
    if found and refusing is None:
        if lease is None:
            held_until = conn.scalar(sa.select(db_now(holder.for_s)))
        row = {
            "turn_id": holder.id,
            "name": holder.name,
            "epoch": 0 if lease is None else lease.epoch,
            "held_until": held_until,
            "profile": account.profile,
            "session_id": account.session_id,
            "job_id": account.job_id,
            "day": account.day,
            "micro_usd": asked.micro_usd,
            "tokens": asked.tokens,
        }
        _RESERVE.run(conn, row)
    return found, refusing


def settle(conn: Connection, turn_id: str, name: str) -> None:
    """Release a call's reservation, in the transaction that counts what it used."""
    _SETTLE.run(conn, {"turn": turn_id, "reservation": name})


def settle_all(conn: Connection, turn_id: str) -> None:
    """Release all reservations of a turn."""
    _SETTLE_ALL.run(conn, {"turn": turn_id})


def _limits(conn: Connection, profile: str) -> Limits:
    rows = conn.execute(_LIMITS, {"profile": profile})
    return {(Scope(r.scope), r.scope_id): Amount(r.micro_usd, r.tokens) for r in rows}


def _limit_of(scope: Scope, scope_id: str, limits: Limits, policy: Policy) -> Amount:
    for key in ((scope, scope_id), (scope, "")):
        if key in limits:
            return limits[key]
    return policy.limits.get(scope, Amount())


def _as_standing(scope: Scope, scope_id: str, limits: Limits, policy: Policy) -> BudgetStatus:
    is_set = (scope, scope_id) in limits or (scope, "") in limits
    return BudgetStatus(scope, scope_id, _limit_of(scope, scope_id, limits, policy), is_set=is_set)


def _applying(
    scope: Scope, account: Account, limits: Limits, policy: Policy
) -> BudgetStatus | None:
    scope_id = account.id_in(scope)
    if not scope_id:
        return None
    named = scope_id if scope in (Scope.SESSION, Scope.JOB) else ""
    standing = _as_standing(scope, named, limits, policy)
    return standing if standing.limit else None


def _counted(
    conn: Connection, standing: BudgetStatus, account: Account, own: Holder = _NOBODY
) -> BudgetStatus:
    scope = standing.scope
    scope_id = standing.scope_id or (account.id_in(scope) if _is_one(scope) else "")
    if not scope_id:
        return standing
    values = {"scope_id": scope_id, "turn": own.id, "reservation": own.name}
    counted = conn.execute(_STANDING[scope], values | {"profile": account.profile}).one()
    spent_usd, spent, reserved_usd, reserved = counted
    return replace(
        standing, spent=Amount(spent_usd, spent), reserved=Amount(reserved_usd, reserved)
    )


def _is_one(scope: Scope) -> bool:
    return scope in (Scope.PROFILE, Scope.DAY)


_used = model_usage.c
_TODAY = (_used.profile == bindparam("profile"), _used.day == bindparam("day"))
_PROFILES = sa.select(_used.profile).where(_used.day == bindparam("day")).distinct()
_owner = sa.case(
    (session.c.platform.in_((SUBAGENT, REVIEW)), session.c.parent_session_id),
    else_=_used.session_id,
)
"""The session whose budget is charged: for a delegated turn, the delegating one."""


def _most(which: sa.ColumnElement[str], *of_today: sa.ColumnElement[bool]) -> sa.Select[int, int]:
    each = (
        sa.select(
            sa.func.sum(_used.cost_micro_usd).label("micro_usd"),
            sa.func.sum(_used.prompt_tokens + _used.completion_tokens).label("tokens"),
        )
        .join_from(model_usage, session, session.c.id == _used.session_id, isouter=True)
        .where(_used.profile == bindparam("profile"), *of_today)
        .group_by(which)
        .subquery()
    )
    return sa.select(
        sa.cast(sa.func.coalesce(sa.func.max(each.c.micro_usd), 0), sa.BigInteger),
        sa.cast(sa.func.coalesce(sa.func.max(each.c.tokens), 0), sa.BigInteger),
    )


_MOST = {
    Scope.SESSION: _most(_owner, _used.session_id.in_(sa.select(_used.session_id).where(*_TODAY))),
    Scope.JOB: _most(
        _used.job_id, _used.job_id != "", _used.job_id.in_(sa.select(_used.job_id).where(*_TODAY))
    ),
}


def used_ratios(conn: Connection, policy: Policy, day: str) -> Mapping[Scope, float]:
    """Return the highest used share of any budget of each scope."""
    profiles = set(limited_profiles(conn))
    if policy.is_limiting:
        profiles.update(conn.execute(_PROFILES, {"day": day}).scalars())
    found: dict[Scope, float] = dict.fromkeys(policy.limits, 0.0)
    for profile in profiles:
        for standing in every_limit(conn, Account(profile, "", "", day), policy):
            counted = _of_greatest(conn, standing, profile, day)
            found[counted.scope] = max(found.get(counted.scope, 0.0), counted.used_ratio)
    return found


def _of_greatest(conn: Connection, standing: BudgetStatus, profile: str, day: str) -> BudgetStatus:
    if standing.scope_id or standing.scope not in _MOST:
        return standing
    micro_usd, tokens = conn.execute(_MOST[standing.scope], {"profile": profile, "day": day}).one()
    return replace(standing, spent=Amount(micro_usd, tokens))
