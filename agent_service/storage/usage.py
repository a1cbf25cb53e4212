"""Usage of model calls, summed up by session, model and day."""

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import asdict
from sqlalchemy import Connection

from agent_service.records.transition import Transition
from agent_service.records.usage import Usage
from agent_service.storage.schema import MODEL_CHARS, model_usage
from services.database import Prepared, upsert_sum

_SUMS = Usage.__struct_fields__
_ADD = Prepared(upsert_sum(model_usage, ("session_id", "model", "day"), _SUMS))
_TOTALS = tuple(
    sa.cast(sa.func.coalesce(sa.func.sum(model_usage.c[name]), 0), sa.BigInteger).label(name)
    for name in _SUMS
)
_JOB_SESSION = re.compile(r"cron_(.+?)_\d{8}_\d{6}(?:_[0-9a-f]{8})?")


class UsageGroup(StrEnum):
    """What usage is grouped by; each is a column."""

    DAY = "day"
    MODEL = "model"
    SESSION = "session_id"
    PROFILE = "profile"


class Charged(Protocol):
    """Whom a call is charged to."""

    @property
    def profile(self) -> str: ...

    @property
    def session_id(self) -> str: ...

    @property
    def charged_session_id(self) -> str: ...


class UsageQuery(Struct, frozen=True):
    """Which usage to sum up, and how to group it; empty means all."""

    by: UsageGroup
    profile: str = ""
    session_id: str = ""
    since: str = ""
    """The first day, YYYY-MM-DD."""
    until: str = ""

    @property
    def conditions(self) -> list[sa.ColumnElement[bool]]:
        row = model_usage.c
        told = (
            (self.profile, row.profile == self.profile),
            (self.session_id, row.session_id == self.session_id),
            (self.since, row.day >= self.since),
            (self.until, row.day <= self.until),
        )
        return [condition for value, condition in told if value]


def job_of(session_id: str) -> str:
    """Return the job that this session is a run of; empty for other sessions."""
    found = _JOB_SESSION.fullmatch(session_id)
    return "" if found is None else found[1]


def record(conn: Connection, transition: Transition, day: str) -> None:
    """Add the usage of a transition's answers, in the transaction that stores them."""
    for model, used in transition.answers:
        add(conn, transition.turn, day, model, used)


def add(conn: Connection, turn: Charged, day: str, model: str, used: Usage) -> None:
    """Add a model's usage for a turn, or for something else that is charged."""
    whose = {
        "session_id": turn.session_id,
        "model": model.replace("\0", "")[:MODEL_CHARS],
        "day": day,
        "profile": turn.profile,
        "job_id": job_of(turn.charged_session_id),
    }
    _ADD.run(conn, {**whose, **asdict(used)})


def totals(
    conn: Connection, query: UsageQuery, limit: int
) -> tuple[Usage, Sequence[tuple[str, Usage]]]:
    """Return the total and the groups: latest days or largest sums first."""
    asked = query.conditions
    whole = conn.execute(sa.select(*_TOTALS).where(*asked)).mappings().one()
    key = model_usage.c[query.by]
    tokens = sa.func.sum(model_usage.c.prompt_tokens + model_usage.c.completion_tokens)
    order = (key.desc(),) if query.by is UsageGroup.DAY else (tokens.desc(), key)
    by_key = sa.select(key.label("key"), *_TOTALS).where(*asked).group_by(key)
    parts = conn.execute(by_key.order_by(*order).limit(limit)).mappings()
    return _usage(whole), [(row["key"], _usage(row)) for row in parts]


def _usage(row: sa.RowMapping) -> Usage:
    return Usage(**{name: int(row[name]) for name in _SUMS})
