"""How much of the budgets is used, over all profiles: what is nearest to its limit by scope."""

from collections.abc import Mapping

import sqlalchemy as sa
from msgspec.structs import replace
from sqlalchemy import Connection, bindparam

from agent_service.budget import Account, Amount, Policy, Scope, Standing
from agent_service.requests import REVIEW, SUBAGENT
from agent_service.storage.budgets import every_limit, limited_profiles
from agent_service.storage.schema import model_usage, session

_used = model_usage.c
_TODAY = (_used.profile == bindparam("profile"), _used.day == bindparam("day"))
_PROFILES = sa.select(_used.profile).where(_used.day == bindparam("day")).distinct()
_owner = sa.case(
    (session.c.platform.in_((SUBAGENT, REVIEW)), session.c.parent_session_id),
    else_=_used.session_id,
)
"""The session that is held to what was used: whoever handed the work over."""


def _most(which: sa.ColumnElement[str], *of_today: sa.ColumnElement[bool]) -> sa.Select[int, int]:
    """What the one that has used most has used, of those that have used anything today."""
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
        _used.job_id,
        _used.job_id != "",
        _used.job_id.in_(sa.select(_used.job_id).where(*_TODAY)),
    ),
}


def used_ratios(conn: Connection, policy: Policy, day: str) -> Mapping[Scope, float]:
    """The greatest used part of a budget of each scope, of those that there are."""
    profiles = set(limited_profiles(conn))
    if policy.is_limiting:
        profiles.update(conn.execute(_PROFILES, {"day": day}).scalars())
    found: dict[Scope, float] = dict.fromkeys(policy.limits, 0.0)
    for profile in profiles:
        for standing in every_limit(conn, Account(profile, "", "", day), policy):
            counted = _counted(conn, standing, profile, day)
            found[counted.scope] = max(found.get(counted.scope, 0.0), counted.used_ratio)
    return found


def _counted(conn: Connection, standing: Standing, profile: str, day: str) -> Standing:
    """A budget that each session or job has, as it stands for the one that has used most."""
    if standing.scope_id or standing.scope not in _MOST:
        return standing
    micro_usd, tokens = conn.execute(_MOST[standing.scope], {"profile": profile, "day": day}).one()
    return replace(standing, spent=Amount(micro_usd, tokens))
