"""Sessions are named, branched, taken back, deleted and pruned, on both databases."""

from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import Connection

from agent_service.records.compression import Compression
from agent_service.records.requests import NOTICE, TurnOptions, TurnRequest
from agent_service.records.search_query import parse
from agent_service.records.usage import Usage
from agent_service.storage import session_changes as changes
from agent_service.storage import sessions
from agent_service.storage import undo as undoing
from agent_service.storage.activity import activity
from agent_service.storage.schema import metadata, sandbox_binding, session, turn, undone_message
from agent_service.storage.search import queries
from agent_service.storage.search.index import message_text
from agent_service.storage.search.queries import SearchQuery
from agent_service.storage.session_changes import Branch, PruneFilter
from agent_service.storage.transcripts import header
from agent_service.storage.undo import UndoRequest, UndoResult
from services.database import Database
from services.errors import AlreadyExists, FailedPrecondition, HermesError, NotFound
from services.ids import new_id
from tests.integration.agent_history import BEGUN, history, said, store

NOW = BEGUN + timedelta(days=30)
MESSAGES = [
    said("user", "first question"),
    said("assistant", "first answer"),
    said("user", "second question"),
    said("assistant", "", tool_calls=[{"id": "1", "function": {"name": "a", "arguments": "{}"}}]),
    said("tool", "result", tool_call_id="1"),
    said("assistant", "second answer"),
]


@pytest.fixture
async def filled(database_url: str) -> AsyncIterator[Database]:
    """One conversation of two turns."""
    async with history(database_url) as database:
        await database.write(lambda conn: store(conn, "s", MESSAGES))
        yield database


def _turn(
    conn: Connection, session_id: str, state: str, turn_id: str = "", kind: str = "user"
) -> None:
    empty: dict[str, Any] = {
        "usage": Usage(),
        "request": TurnRequest("", "", "", "", {}, "", options=TurnOptions("its/model")),
        "request_digest": "",
        "kind": kind,
    }
    zero = dict.fromkeys(("epoch", "version", "attempt", "stuck_at", "stuck_count"), 0)
    row = {"id": turn_id or f"trn-{session_id}", "session_id": session_id, "profile": "default"}
    more = {"owner_endpoint": "", "cancel_requested": False, "last_sequence": 0, "created_at": NOW}
    ended = {"state": state, "finished_at": NOW if state == "COMPLETED" else None}
    conn.execute(sa.insert(turn), {**row, **empty, **zero, **more, **ended})


def undo(
    conn: Connection, session_id: str, profile: str, turns: int, expected: int, by: str = ""
) -> UndoResult:
    wanted = UndoRequest(session_id, profile, by or new_id("und"), turns, expected)
    return undoing.undo(conn, wanted, NOW)


async def texts(database: Database, session_id: str) -> list[str]:
    found = await database.read(lambda conn: sessions.messages(conn, session_id, "default", 0, 99))
    return [message.content["content"] for message in found]


async def where(database: Database, word: str, session_id: str = "") -> list[tuple[str, int]]:
    wanted = SearchQuery("default", parse(word), session_id=session_id)
    hits = await database.read(lambda conn: queries.newest(conn, wanted, 10))
    return [(hit.session_id, hit.sequence) for hit in hits]


async def test_a_title_that_was_given_stays_known_as_such(filled: Database) -> None:
    renamed = await filled.write(lambda conn: changes.rename(conn, "s", "default", "My plan"))
    assert (renamed.title, renamed.is_named) == ("My plan", True)
    found = await filled.read(
        lambda conn: sessions.list_by_use(conn, "default", "", None, 9, title="my PLAN")
    )
    assert [info.session_id for info in found] == ["s"]
    assert not await filled.read(
        lambda conn: sessions.list_by_use(conn, "default", "", None, 9, title="My")
    )


async def test_undo_takes_back_whole_turns(filled: Database) -> None:
    before = await filled.read(lambda conn: conn.scalar(sa.select(session.c.revision)))
    undone = await filled.write(lambda conn: undo(conn, "s", "default", 1, 6))
    assert (undone.turn_count, undone.message_count) == (1, 2)
    assert undone.user_text == "second question"
    assert await texts(filled, "s") == ["first question", "first answer"]
    assert await where(filled, "second") == []
    assert await where(filled, "first") == [("s", 2), ("s", 1)]
    after = await filled.read(lambda conn: conn.scalar(sa.select(session.c.revision)))
    assert before is not None
    assert after is not None
    assert after > before

    with pytest.raises(FailedPrecondition):
        await filled.write(lambda conn: undo(conn, "s", "default", 1, 6))
    undone = await filled.write(lambda conn: undo(conn, "s", "default", 9, 0))
    assert (undone.turn_count, undone.message_count) == (1, 0)
    undone = await filled.write(lambda conn: undo(conn, "s", "default", 1, 0))
    assert (undone.turn_count, undone.user_text) == (0, "")


async def test_undo_takes_a_notice_back_with_what_was_said_before_it(filled: Database) -> None:
    notice = [said("user", "Notice: it has ended."), said("assistant", "heard")]
    await filled.write(lambda conn: store(conn, "told", [*MESSAGES, *notice]))
    await filled.write(lambda conn: _turn(conn, "told", "COMPLETED", "told-3", NOTICE))
    for _ in range(2):
        undone = await filled.write(lambda conn: undo(conn, "told", "default", 1, 0, "once"))
        assert (undone.turn_count, undone.message_count) == (1, 2)
        assert undone.user_text == "second question"
    assert await texts(filled, "told") == ["first question", "first answer"]


async def test_what_is_taken_back_is_kept_out_of_sight(filled: Database) -> None:
    await filled.write(lambda conn: undo(conn, "s", "default", 1, 0, "first"))
    await filled.write(lambda conn: undo(conn, "s", "default", 1, 0, "second"))

    def kept(conn: Connection) -> list[tuple[str, int, str]]:
        rows = conn.execute(sa.select(undone_message)).all()
        return sorted((row.undo_id, row.sequence, row.role) for row in rows)

    assert await filled.read(kept) == [
        ("first", 3, "user"),
        ("first", 4, "assistant"),
        ("first", 5, "tool"),
        ("first", 6, "assistant"),
        ("second", 1, "user"),
        ("second", 2, "assistant"),
    ]
    await filled.write(lambda conn: changes.delete(conn, "s", "default", NOW))
    assert await filled.read(kept) == []


async def test_the_same_undo_takes_back_nothing_more(filled: Database) -> None:
    first = await filled.write(lambda conn: undo(conn, "s", "default", 1, 6, "once"))
    # Also when somebody speaks again meanwhile: what was asked for has been done.
    await filled.write(lambda conn: _turn(conn, "s", "RUNNING"))
    again = await filled.write(lambda conn: undo(conn, "s", "default", 1, 6, "once"))
    assert first == again == UndoResult(1, 2, "second question")
    assert len(await texts(filled, "s")) == 2


async def test_a_branch_has_what_was_said_and_goes_its_own_way(filled: Database) -> None:
    wanted = Branch("s", "b", "default", through=1, title="Other")
    for _ in range(2):
        made = await filled.write(lambda conn: changes.branch(conn, wanted, NOW))
        assert (made.parent_session_id, made.title, made.message_count) == ("s", "Other", 2)
    assert await texts(filled, "b") == ["first question", "first answer"]
    assert await where(filled, "first") == [("s", 2), ("s", 1)]
    assert await where(filled, "first", "b") == [("b", 2), ("b", 1)]
    await filled.write(lambda conn: undo(conn, "b", "default", 1, 0))
    assert len(await texts(filled, "s")) == 6

    other = Branch("b", "s", "default")
    with pytest.raises(AlreadyExists):
        await filled.write(lambda conn: changes.branch(conn, other, NOW))
    absent = Branch("s", "c", "default", through=7)
    with pytest.raises(NotFound):
        await filled.write(lambda conn: changes.branch(conn, absent, NOW))


async def test_the_document_of_a_branch_names_the_model(filled: Database) -> None:
    await filled.write(lambda conn: _turn(conn, "s", "COMPLETED"))
    for old, new in (("s", "b"), ("b", "c")):
        wanted = Branch(old, new, "default")
        await filled.write(lambda conn, wanted=wanted: changes.branch(conn, wanted, NOW))
    assert (await filled.read(lambda conn: header(conn, "c", "default"))).model == "its/model"


async def test_a_branch_of_what_has_read_a_strangers_text_has_read_it(filled: Database) -> None:
    await filled.write(lambda conn: sessions.put_state(conn, "s", "taint", ["web pages"]))
    await filled.write(lambda conn: changes.branch(conn, Branch("s", "b", "default"), NOW))
    kept = await filled.read(lambda conn: sessions.get_state(conn, "b", "taint"))
    assert kept == ["web pages"]


async def test_what_a_summary_says_of_undone_turns_is_gone(filled: Database) -> None:
    compressed = sa.update(session).values(compression=Compression(0, 2, 2, "first"))
    await filled.write(lambda conn: conn.execute(compressed))
    for branch, through in (("b", 0), ("c", 1)):
        wanted = Branch("s", branch, "default", through)
        await filled.write(lambda conn, wanted=wanted: changes.branch(conn, wanted, NOW))
        assert await filled.read(lambda conn, of=branch: _summary(conn, of)) == "first"
    for left in ("first", ""):
        await filled.write(lambda conn: undo(conn, "s", "default", 1, 0))
        assert await filled.read(lambda conn: _summary(conn, "s")) == left


def _summary(conn: Connection, session_id: str) -> str:
    found: Compression = conn.execute(
        sa.select(session.c.compression).where(session.c.id == session_id)
    ).scalar_one()
    return found.summary


async def test_what_a_branch_has_is_found_when_the_other_is_deleted(filled: Database) -> None:
    wanted = Branch("s", "b", "default")
    await filled.write(lambda conn: changes.branch(conn, wanted, NOW))
    await filled.write(lambda conn: changes.delete(conn, "s", "default", NOW))
    assert await where(filled, "first") == [("b", 2), ("b", 1)]
    info = await filled.read(lambda conn: sessions.get(conn, "b", "default"))
    assert info.parent_session_id == ""


async def test_a_deleted_session_leaves_nothing_but_a_sandbox_to_end(filled: Database) -> None:
    def finished(conn: Connection) -> None:
        _turn(conn, "s", "COMPLETED")
        conn.execute(sa.update(turn).values(finished_at=NOW))
        bound = {"session_id": "s", "sandbox_id": "sbx_1", "endpoint": "", "workspace_id": ""}
        conn.execute(sa.insert(sandbox_binding), bound)
        sessions.put_state(conn, "s", "todo", [])

    await filled.write(finished)
    await filled.write(lambda conn: changes.delete(conn, "s", "default", NOW))

    def left(conn: Connection) -> dict[str, int]:
        counts = {
            table.name: conn.scalar(sa.select(sa.func.count()).select_from(table)) or 0
            for table in metadata.sorted_tables
        }
        return {name: count for name, count in counts.items() if count}

    assert await filled.read(left) == {"left_sandbox": 1}
    assert await where(filled, "first") == []
    with pytest.raises(NotFound):
        await filled.write(lambda conn: changes.delete(conn, "s", "default", NOW))


def test_all_that_belongs_to_a_session_is_deleted_with_it() -> None:
    refer = {
        table.name
        for table in metadata.sorted_tables
        for key in table.foreign_keys
        if key.column.table.name in {"session", "turn", "message"}
    }
    deleted = {*changes.DELETED_BY_TURN, *changes.DELETED_BY_SESSION, message_text}
    # What is allowed for always refers to no session, so that the table cannot.
    assert refer | {"approval_grant"} == {table.name for table in deleted}


@pytest.mark.parametrize("state", ["QUEUED", "RUNNING", "WAITING_PERSON"])
async def test_a_busy_session_is_left_alone(filled: Database, state: str) -> None:
    await filled.write(lambda conn: _turn(conn, "s", state))
    attempts: tuple[Callable[[Connection], object], ...] = (
        lambda conn: undo(conn, "s", "default", 1, 0),
        lambda conn: changes.branch(conn, Branch("s", "b", "default"), NOW),
        lambda conn: changes.delete(conn, "s", "default", NOW),
    )
    for attempt in attempts:
        with pytest.raises(FailedPrecondition, match="busy"):
            await filled.write(attempt)
    unused = PruneFilter("default", NOW)
    assert not await filled.read(lambda conn: changes.unused(conn, unused, 9))
    assert not await filled.write(lambda conn: changes.delete_unused(conn, "s", unused, NOW))
    renamed = await filled.write(lambda conn: changes.rename(conn, "s", "default", "Named"))
    assert renamed.title == "Named"
    assert len(await texts(filled, "s")) == 6


async def test_another_profile_sees_no_session(filled: Database) -> None:
    attempts: tuple[Callable[[Connection], object], ...] = (
        lambda conn: changes.rename(conn, "s", "other", "x"),
        lambda conn: undo(conn, "s", "other", 1, 0),
        lambda conn: changes.branch(conn, Branch("s", "b", "other"), NOW),
        lambda conn: changes.delete(conn, "s", "other", NOW),
    )
    messages: set[str] = set()
    for attempt in attempts:
        with pytest.raises(HermesError) as refused:
            await filled.write(attempt)
        assert isinstance(refused.value, NotFound)
        messages.add(refused.value.message)
    assert messages == {"there is no session s"}
    assert not await filled.read(lambda conn: changes.unused(conn, PruneFilter("other", NOW), 9))


async def test_what_is_pruned_is_old_and_has_no_name(filled: Database) -> None:
    def more(conn: Connection) -> None:
        store(conn, "named", MESSAGES[:1])
        changes.rename(conn, "named", "default", "Keep")
        store(conn, "recent", MESSAGES[:1], begun=NOW)
        store(conn, "hers", MESSAGES[:1], profile="hers")

    await filled.write(more)

    async def prunable(wanted: PruneFilter) -> list[str]:
        return list(await filled.read(lambda conn: changes.unused(conn, wanted, 9)))

    assert await prunable(PruneFilter("default", NOW)) == ["s"]
    assert await prunable(PruneFilter("default", NOW, include_named=True)) == ["named", "s"]
    assert await prunable(PruneFilter("default", NOW, include_named=True, after="named")) == ["s"]
    assert await prunable(PruneFilter("default", NOW, platform="telegram")) == []
    wanted = PruneFilter("default", NOW)
    for name, gone in (("named", False), ("recent", False), ("hers", False), ("s", True)):
        deleted = await filled.write(
            lambda conn, name=name: changes.delete_unused(conn, name, wanted, NOW)
        )
        assert deleted is gone, name


@pytest.mark.parametrize(
    ("platform", "talks"),
    [("cli", True), ("telegram", True), ("subagent", False), ("review", False)],
)
async def test_only_people_count_as_talk(filled: Database, platform: str, talks: bool) -> None:
    await filled.write(lambda conn: conn.execute(sa.update(session).values(platform=platform)))
    found = await filled.read(lambda conn: activity(conn, "default"))
    assert (found.last_at is not None) == talks
