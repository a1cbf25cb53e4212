"""Turns in the database: stored once, begun when their session is free, claimed by one owner."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from msgspec import Struct, field
from msgspec.structs import replace
from sqlalchemy import Connection, bindparam

from agent_service.records import events
from agent_service.records.calls import StepState
from agent_service.records.overlays import NOTHING, Overlay
from agent_service.records.requests import (
    BATCH,
    COMPRESS,
    REVIEW,
    BusyMode,
    TurnInfo,
    TurnOptions,
    TurnRequest,
    stored,
)
from agent_service.records.titles import title_of
from agent_service.records.transition import NewMessage, NewStep
from agent_service.records.turn_state import LiveTurn
from agent_service.records.usage import Usage
from agent_service.storage import sessions, uploads
from agent_service.storage.schema import LIVE_STATES, event, message, session, step, turn
from agent_service.storage.search import index
from agent_service.storage.search.index import Entry
from agent_service.storage.sessions import (
    MEMORY_LIMITS,
    NOTICES,
    OVERLAY,
    SKIPS_CONTEXT_FILES,
    given_model,
)
from agent_service.storage.undo import check_retry
from services.database import Prepared, insert_ignore, is_one_of
from services.errors import AlreadyExists, InvalidArgument, NotFound

REQUEST = sa.select(turn.c.request).where(turn.c.id == bindparam("turn_id"))


class SessionDraft(Struct, frozen=True):
    """The session that a turn creates if it is the first."""

    system_prompt: str
    workdir: str
    sandbox_template: str = ""
    notices: tuple[str, ...] = ()
    skips_context_files: bool = False
    overlay: Overlay = NOTHING
    memory_limits: Mapping[str, int] = field(default_factory=dict[str, int])
    """Limits of its memories in characters, by name; empty means the settings'."""
    refusal: str = ""


class StartResult(Struct, frozen=True):
    """The outcome of a request to start a turn."""

    turn: TurnInfo
    is_new: bool
    waits: bool = False
    """It waits behind a live or queued turn of the session."""
    live_turn: str = ""


_BY_ID = sa.select(turn).where(turn.c.id == bindparam("id"))
_SESSION = Prepared(
    sa.select(
        session.c.profile,
        (session.c.system_prompt == "").label("is_unprompted"),
        ((session.c.title == "") & ~session.c.is_named).label("is_untitled"),
        given_model,
    ).where(session.c.id == bindparam("id"))
)
_BEFORE = Prepared(
    sa.select(turn.c.id, turn.c.state, turn.c.created_at)
    .where(turn.c.session_id == bindparam("session_id"), is_one_of(turn.c.state, LIVE_STATES))
    .union_all(
        sa.select(turn.c.id, turn.c.state, turn.c.created_at).where(
            turn.c.session_id == bindparam("session_id"),
            turn.c.state == sa.literal_column("'QUEUED'"),
        )
    )
)
"""The session's live turn, and queued turns."""
_INSERT = Prepared(insert_ignore(turn))
_INSERT_SESSION = sa.insert(session)
_TITLE = (
    sa.update(session)
    .where(session.c.id == bindparam("session_key"))
    .values(title=bindparam("new_title"))
)
_PROMPT = (
    sa.update(session)
    .where(session.c.id == bindparam("session_key"), session.c.system_prompt == "")
    .values(
        system_prompt=bindparam("new_prompt"),
        title=sa.case(
            (session.c.title == "", bindparam("new_title", type_=sa.Text())), else_=session.c.title
        ),
        workdir=bindparam("new_workdir"),
        sandbox_template=bindparam("new_template"),
    )
)
"""For a session that was imported from a document."""
_REQUEST_CANCEL = (
    sa.update(turn)
    .where(turn.c.id == bindparam("turn_key"), turn.c.finished_at.is_(None))
    .values(
        cancel_requested=True,
        # A turn that waits for a person has no owner; this lets the next one end it.
        state=sa.case((turn.c.state == "WAITING_PERSON", "CANCELLING"), else_=turn.c.state),
    )
)


def store(
    conn: Connection,
    request: TurnRequest,
    defaults: TurnOptions,
    draft: SessionDraft | None,
    now: datetime,
) -> StartResult:
    """Store a turn as queued, once for each id.

    Without a draft its session must have begun, else NotFound.
    """
    digest = request.digest()
    if given := _open_session(conn, request, draft, now):
        defaults = replace(defaults, model=given)
    before = _BEFORE.rows(conn, {"session_id": request.session_id}).all()
    # Queued turns run in order of their times, even if the clock went back.
    last = max((found.created_at for found in before), default=None)
    now = now if last is None else max(now, last + timedelta(microseconds=1))
    if request.all_files and (same := existing(conn, request, digest)) is not None:
        return StartResult(same, is_new=False)  # its files may be gone
    request = uploads.with_paths(conn, request)
    row = new_turn(stored(request, defaults), digest, now)
    if not _INSERT.run(conn, row):
        same = existing(conn, request, digest)
        assert same is not None, "another turn has its id"
        return StartResult(same, is_new=False)
    uploads.attach(conn, request)
    if request.retries:
        check_retry(conn, request.session_id)
    live = next((found.id for found in before if found.state != "QUEUED"), "")
    if live and request.busy_mode is BusyMode.INTERRUPT:
        conn.execute(_REQUEST_CANCEL, {"turn_key": live})
    return StartResult(info(row, is_new=True), is_new=True, waits=bool(before), live_turn=live)


def get(conn: Connection, turn_id: str, profile: str) -> TurnInfo:
    """Return a turn; NotFound if the profile has no such turn."""
    row = conn.execute(_BY_ID, {"id": turn_id}).mappings().one_or_none()
    if row is None or row["profile"] != profile:
        raise NotFound(f"there is no turn {turn_id}")
    return info(row)


def live_turn_of(conn: Connection, session_id: str, profile: str) -> TurnInfo | None:
    """Return the session's live turn, if the profile has such a session."""
    live = turn.c.session_id == session_id, is_one_of(turn.c.state, LIVE_STATES)
    turn_id = conn.scalar(sa.select(turn.c.id).where(*live, turn.c.profile == profile))
    return None if turn_id is None else get(conn, turn_id, profile)


def request_cancel(conn: Connection, turn_id: str, profile: str, now: datetime) -> TurnInfo:
    """Ask a turn to stop; one that has not begun ends at once."""
    found = get(conn, turn_id, profile)
    queued = sa.update(turn).where(turn.c.id == turn_id, turn.c.state == "QUEUED")
    cancelled = queued.values(state="CANCELLED", finished_at=now, last_sequence=1)
    if conn.execute(cancelled).rowcount:
        ended = events.TurnFinished(events.Outcome.CANCELLED)
        insert_events(conn, turn_id, [events.Recorded(1, now, 1, ended)])
    elif not found.is_finished:
        conn.execute(_REQUEST_CANCEL, {"turn_key": turn_id})
    return get(conn, turn_id, profile)


def info(row: Mapping[Any, Any], *, is_new: bool = False) -> TurnInfo:
    """Return a row as callers see it."""
    known = {name: row[name] for name in TurnInfo.__struct_fields__ if name in row}
    return TurnInfo(**known, is_new=is_new)


def existing(conn: Connection, request: TurnRequest, digest: str) -> TurnInfo | None:
    """Return the turn that has a request's id; AlreadyExists if the request differed."""
    row = conn.execute(_BY_ID, {"id": request.turn_id}).mappings().one_or_none()
    if row is None:
        return None
    if (row["request_digest"], row["profile"]) != (digest, request.profile):
        raise AlreadyExists(f"turn {request.turn_id} was started with another request")
    return info(row)


def new_turn(request: TurnRequest, digest: str, now: datetime) -> dict[str, Any]:
    """Return the row of a new turn; `request` is what is stored of the request."""
    return {
        "id": request.turn_id,
        "profile": request.profile,
        "session_id": request.session_id,
        "kind": request.kind,
        "request_digest": digest,
        "request": request,
        "created_at": now,
        "state": "QUEUED",
        "owner": None,
        "owner_endpoint": "",
        "epoch": 0,
        "version": 1,
        "attempt": 1,
        "stuck_at": 0,
        "stuck_count": 0,
        "cancel_requested": False,
        "usage": Usage(),
        "last_sequence": 0,
        "finished_at": None,
    }


def _open_session(
    conn: Connection, request: TurnRequest, draft: SessionDraft | None, now: datetime
) -> str:
    known = _SESSION.rows(conn, {"id": request.session_id}).one_or_none()
    if known is not None and known.profile != request.profile:
        raise NotFound(f"there is no session {request.session_id}")
    if draft is None and (known is None or known.is_unprompted):
        raise NotFound(f"there is no session {request.session_id}")
    title = "" if request.kind == COMPRESS else title_of(request.words)
    if known is not None:
        if known.is_untitled and title:
            conn.execute(_TITLE, {"session_key": request.session_id, "new_title": title})
        if draft is not None and known.is_unprompted:
            made = {
                "session_key": request.session_id,
                "new_prompt": draft.system_prompt,
                "new_title": title,
                "new_workdir": draft.workdir,
                "new_template": draft.sandbox_template,
            }
            conn.execute(_PROMPT, made)
            _keep(conn, request.session_id, draft)
        return known.model or ""
    assert draft is not None, "the session is there without one"
    if draft.refusal:
        raise InvalidArgument(
            draft.refusal, fields={"sandbox_template": "a template that there is"}
        )
    row = sessions.new_session(
        request.session_id,
        request.profile,
        request.platform,
        now,
        title=title,
        system_prompt=draft.system_prompt,
        workdir=draft.workdir,
        sandbox_template=draft.sandbox_template,
        parent_session_id=request.parent_session_id or None,
    )
    conn.execute(_INSERT_SESSION, row)
    _keep(conn, request.session_id, draft)
    return ""


def _keep(conn: Connection, session_id: str, draft: SessionDraft) -> None:
    if draft.notices:
        sessions.put_state(conn, session_id, NOTICES, {"after": 0, "texts": draft.notices})
    if draft.overlay != NOTHING:
        # A personality may have been chosen before the session began.
        chosen = Overlay.from_state(sessions.get_state(conn, session_id, OVERLAY))
        overlay = draft.overlay.with_personality(chosen.personality, chosen.personality_prompt)
        sessions.put_state(conn, session_id, OVERLAY, overlay.stored())
    if draft.skips_context_files:
        sessions.put_state(conn, session_id, SKIPS_CONTEXT_FILES, True)
    if draft.memory_limits:
        sessions.put_state(conn, session_id, MEMORY_LIMITS, dict(draft.memory_limits))


_INSERT_EVENT = Prepared(sa.insert(event))
_INSERT_MESSAGE = Prepared(sa.insert(message))
_INSERT_STEP = Prepared(sa.insert(step))
_EVENTS = (
    sa.select(event)
    .where(event.c.turn_id == bindparam("id"), event.c.sequence > bindparam("after"))
    .order_by(event.c.sequence)
)


def insert_events(conn: Connection, turn_id: str, recorded: Sequence[events.Recorded]) -> None:
    """Store durable events."""
    rows: list[dict[str, Any]] = []
    for item in recorded:
        assert not isinstance(item.event, events.Live), "live events are not stored"
        rows.append(
            {
                "turn_id": turn_id,
                "sequence": item.sequence,
                "event": item.event,
                "attempt": item.attempt,
                "created_at": item.time,
            }
        )
    _INSERT_EVENT.run_all(conn, rows)


def events_after(conn: Connection, turn_id: str, after: int) -> list[events.Recorded]:
    """Return the turn's durable events after a sequence."""
    return [
        events.Recorded(row.sequence, row.created_at, row.attempt, row.event)
        for row in conn.execute(_EVENTS, {"id": turn_id, "after": after})
    ]


def insert_messages(
    conn: Connection, turn: LiveTurn | sa.Row[Any], messages: Sequence[NewMessage], now: datetime
) -> None:
    """Store a turn's messages; those of reviews and batches are not searchable."""
    rows = [
        {
            "session_id": turn.session_id,
            "sequence": new.sequence,
            "turn_id": turn.id,
            "role": new.role,
            "content": new.content.decode(),
            "reasoning": new.reasoning.replace("\0", ""),
            "logprobs": new.logprobs,
            "created_at": now,
        }
        for new in messages
    ]
    _INSERT_MESSAGE.run_all(conn, rows)
    if turn.kind != REVIEW and turn.request.platform != BATCH:
        entries = [Entry(new.sequence, new.role, new.terms, now) for new in messages]
        index.add(conn, turn.profile, turn.session_id, entries)


def insert_steps(conn: Connection, turn_id: str, steps: Sequence[NewStep]) -> None:
    """Store the steps that a turn intends."""
    rows = [
        {
            "turn_id": turn_id,
            "sequence": new.sequence,
            "kind": new.kind,
            "key": f"{turn_id}:{new.sequence}",
            "state": StepState.INTENT,
            "call": None if new.call is None else new.call.call,
            "message_sequence": new.message_sequence,
        }
        for new in steps
    ]
    _INSERT_STEP.run_all(conn, rows)
