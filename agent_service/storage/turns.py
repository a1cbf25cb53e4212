"""Turns in the database: started once, begun when their session is free, claimed by one owner."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, bindparam

from agent_service import events
from agent_service.models.base import encoded
from agent_service.requests import BusyMode, TurnInfo, TurnRequest
from agent_service.storage.schema import (
    LIVE_STATES,
    event,
    message,
    session,
    step,
    turn,
)
from agent_service.usage import Usage
from services.database.sql import db_now
from services.errors import AlreadyExists, NotFound

TITLE_CHARS = 80


@dataclass(frozen=True, slots=True)
class Owner:
    """Who claims turns, where it is reached, and for how long a claim holds."""

    instance: str
    """Stable over restarts."""
    boot_id: str
    """Of this process."""
    endpoint: str
    lease: timedelta

    @property
    def name(self) -> str:
        """What stands in a turn's row."""
        return f"{self.instance}/{self.boot_id}"


@dataclass(frozen=True, slots=True)
class SessionDraft:
    """The session that a turn creates when it is the first."""

    system_prompt: str
    workdir: str


@dataclass(frozen=True, slots=True)
class Started:
    """What StartTurn did."""

    turn: TurnInfo
    is_new: bool
    began: bool = False
    """The turn runs, owned by the caller, and is to be driven."""
    interrupts: str = ""
    """The live turn that was asked to stop for this one."""


BY_ID = sa.select(turn).where(turn.c.id == bindparam("id"))
SESSION = sa.select(session).where(session.c.id == bindparam("id"))
_LIVE = sa.select(turn.c.id).where(
    turn.c.session_id == bindparam("session_id"), turn.c.state.in_(LIVE_STATES)
)
_INSERT = sa.insert(turn)
_INSERT_CLAIMED = sa.insert(turn).values(
    lease_until=db_now(bindparam("lease_s", type_=sa.Double()))
)
_INSERT_SESSION = sa.insert(session)
_INSERT_MESSAGE = sa.insert(message)
_INSERT_STEP = sa.insert(step)
_INSERT_EVENT = sa.insert(event)
_TOUCH_SESSION = (
    sa.update(session)
    .where(session.c.id == bindparam("session_key"))
    .values(message_count=bindparam("count"), updated_at=bindparam("now"))
)
_REQUEST_CANCEL = (
    sa.update(turn)
    .where(turn.c.id == bindparam("turn_key"), turn.c.finished_at.is_(None))
    .values(
        cancel_requested=True,
        # Nobody owns a turn that waits for a person; this lets the next owner end it.
        state=sa.case((turn.c.state == "WAITING_PERSON", "CANCELLING"), else_=turn.c.state),
    )
)
_CANCEL_QUEUED = (
    sa.update(turn)
    .where(turn.c.id == bindparam("turn_key"), turn.c.state == "QUEUED")
    .values(state="CANCELLED", finished_at=bindparam("now"), last_sequence=1)
)


def start(
    conn: Connection,
    request: TurnRequest,
    model: str,
    draft: SessionDraft,
    owner: Owner,
    now: datetime,
) -> Started:
    """Store a turn and begin it when its session is free; once, however often it is asked for."""
    digest = request.digest()
    known = conn.execute(BY_ID, {"id": request.turn_id}).one_or_none()
    if known is not None:
        if known.request_digest != digest or known.profile != request.profile:
            raise AlreadyExists(f"turn {request.turn_id} was started with another request")
        return Started(info(known), is_new=False)
    count = _open_session(conn, request, draft, now)
    live = conn.execute(_LIVE, {"session_id": request.session_id}).scalar_one_or_none()
    row = _row(request, model, digest, now)
    if live is None:
        row |= {
            "state": "RUNNING",
            "epoch": 1,
            "last_sequence": 1,
            "lease_s": owner.lease.total_seconds(),
        }
        row |= {"owner": owner.name, "owner_endpoint": owner.endpoint}
        conn.execute(_INSERT_CLAIMED, row)
        begin(conn, row, count, now)
        return Started(_new_info(row), is_new=True, began=True)
    conn.execute(_INSERT, row)
    if request.busy_mode is BusyMode.QUEUE:
        return Started(_new_info(row), is_new=True)
    conn.execute(_REQUEST_CANCEL, {"turn_key": live})
    return Started(_new_info(row), is_new=True, interrupts=live)


def get(conn: Connection, turn_id: str, profile: str) -> TurnInfo:
    """The turn; NotFound when there is none, or not in this profile."""
    row = conn.execute(BY_ID, {"id": turn_id}).one_or_none()
    if row is None or row.profile != profile:
        raise NotFound(f"there is no turn {turn_id}")
    return info(row)


def live_turn_of(conn: Connection, session_id: str, profile: str) -> TurnInfo | None:
    """The session's live turn, if it has one."""
    found = conn.execute(_LIVE, {"session_id": session_id}).scalar_one_or_none()
    return None if found is None else get(conn, found, profile)


def request_cancel(conn: Connection, turn_id: str, profile: str, now: datetime) -> TurnInfo:
    """Ask a turn to stop; one that has not begun ends at once."""
    found = get(conn, turn_id, profile)
    if conn.execute(_CANCEL_QUEUED, {"turn_key": turn_id, "now": now}).rowcount:
        ended = events.TurnFinished(events.Outcome.CANCELLED)
        insert_events(conn, turn_id, [events.Recorded(1, now, 1, ended)])
    elif not found.is_finished:
        conn.execute(_REQUEST_CANCEL, {"turn_key": turn_id})
    return get(conn, turn_id, profile)


def insert_events(conn: Connection, turn_id: str, recorded: Sequence[events.Recorded]) -> None:
    """Store durable events."""
    rows: list[dict[str, Any]] = []
    for item in recorded:
        assert not isinstance(item.event, events.Live), "live events are not stored"
        kind, payload = events.encode(item.event)
        rows.append(
            {
                "turn_id": turn_id,
                "sequence": item.sequence,
                "kind": kind,
                "payload": payload,
                "attempt": item.attempt,
                "created_at": item.time,
            }
        )
    if rows:
        conn.execute(_INSERT_EVENT, rows)


def info(row: sa.Row[Any]) -> TurnInfo:
    """The row as callers see it."""
    return TurnInfo(
        id=row.id,
        session_id=row.session_id,
        kind=row.kind,
        state=row.state,
        created_at=row.created_at,
        finished_at=row.finished_at,
        attempt=row.attempt,
        last_sequence=row.last_sequence,
        owner=row.owner,
        owner_endpoint=row.owner_endpoint,
        usage=Usage(**row.usage),
    )


def _open_session(
    conn: Connection, request: TurnRequest, draft: SessionDraft, now: datetime
) -> int:
    found = conn.execute(SESSION, {"id": request.session_id}).one_or_none()
    if found is not None:
        if found.profile != request.profile:
            raise NotFound(f"there is no session {request.session_id}")
        return found.message_count
    conn.execute(
        _INSERT_SESSION,
        {
            "id": request.session_id,
            "profile": request.profile,
            "platform": request.platform,
            "title": " ".join(request.text.split())[:TITLE_CHARS],
            "system_prompt": draft.system_prompt,
            "workdir": draft.workdir,
            "message_count": 0,
            "usage": asdict(Usage()),
            "approved_tools": [],
            "created_at": now,
            "updated_at": now,
        },
    )
    return 0


def _row(request: TurnRequest, model: str, digest: str, now: datetime) -> dict[str, Any]:
    return {
        "id": request.turn_id,
        "profile": request.profile,
        "session_id": request.session_id,
        "kind": request.kind,
        "state": "QUEUED",
        "owner": None,
        "owner_endpoint": "",
        "epoch": 0,
        "version": 1,
        "attempt": 1,
        "stuck_at": 0,
        "stuck_count": 0,
        "cancel_requested": False,
        "request_digest": digest,
        "request": request.stored(model),
        "usage": asdict(Usage()),
        "last_sequence": 0,
        "created_at": now,
        "finished_at": None,
    }


def _new_info(row: dict[str, Any]) -> TurnInfo:
    return TurnInfo(
        id=row["id"],
        session_id=row["session_id"],
        kind=row["kind"],
        state=row["state"],
        created_at=row["created_at"],
        finished_at=None,
        attempt=row["attempt"],
        last_sequence=row["last_sequence"],
        owner=row["owner"],
        owner_endpoint=row["owner_endpoint"],
    )


def begin(conn: Connection, row: Mapping[str, Any], count: int, now: datetime) -> None:
    """Put the user's message into the session and intend the first model call."""
    turn_id, session_id = row["id"], row["session_id"]
    conn.execute(
        _INSERT_MESSAGE,
        {
            "session_id": session_id,
            "sequence": count + 1,
            "turn_id": turn_id,
            "role": "user",
            "content": encoded({"role": "user", "content": row["request"]["text"]}).decode(),
            "reasoning": "",
            "created_at": now,
        },
    )
    conn.execute(_TOUCH_SESSION, {"session_key": session_id, "count": count + 1, "now": now})
    conn.execute(
        _INSERT_STEP,
        {
            "turn_id": turn_id,
            "sequence": 1,
            "kind": "MODEL",
            "key": f"{turn_id}:1",
            "state": "INTENT",
            "call": None,
            "message_sequence": count + 2,
        },
    )
    started = events.TurnStarted(session_id, row["request"]["model"])
    insert_events(conn, turn_id, [events.Recorded(1, now, row["epoch"], started)])
