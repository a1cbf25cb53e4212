"""The agent's migrations lead to the schema that its code works with."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from agent_service.search.query import parse
from agent_service.storage import (
    budget_schema,
    grants,
    migrations,
    profile_schema,
    review_schema,
    search,
    search_schema,
    undo_schema,
    usage_schema,
    watch_schema,
)
from agent_service.storage.approvals import list_open
from agent_service.storage.schema import approval, metadata, turn
from agent_service.storage.search_index import id_at, token
from agent_service.storage.search_wanted import Wanted
from services.database import Database
from services.migrations import upgrade
from tests.integration.agent_history import BEGUN, said, store
from tests.migrations import assert_migrations_match
from tests.postgres import PostgresServer


async def test_the_migrations_end_at_the_schema(tmp_path: Path, postgres: PostgresServer) -> None:
    assert budget_schema.metadata is usage_schema.metadata is metadata
    await assert_migrations_match(metadata, migrations, tmp_path, postgres)
    tables = (
        search_schema.message_text,
        grants.grant,
        profile_schema.profile_file,
        review_schema.review,
        undo_schema.undone_message,
        watch_schema.watched_command,
    )
    assert {table.name for table in tables} <= metadata.tables.keys()


_OLD_ROW = sa.text(
    "INSERT INTO message_text (id, profile, session_id, sequence, scope, terms)"
    " VALUES (:id, 'default', :session_id, :sequence, :scope, :terms)"
)


async def test_what_was_indexed_before_the_slices_is_found(empty_database_url: str) -> None:
    texts = ["in the end of docker", "the end in docker", "docker"]

    def fill(conn: Connection) -> None:
        store(conn, "old", [said("user", text) for text in texts], is_indexed=False)
        for sequence, text in enumerate(texts, 1):
            row = {
                "id": id_at(BEGUN) + sequence,
                "session_id": "old",
                "sequence": sequence,
                "scope": f"{token('P', 'default')} {token('S', 'old')} {token('R', 'user')}",
                "terms": text,
            }
            conn.execute(_OLD_ROW, row)

    async def found(text: str) -> list[int]:
        wanted = Wanted("default", parse(text), role="user")
        hits = await database.read(lambda conn: search.newest(conn, wanted, 10))
        return [hit.sequence for hit in hits]

    async with Database(empty_database_url, "agent") as database:
        await database.migrate(partial(upgrade, migrations=migrations, to="0012"))
        await database.write(fill)
        await database.migrate(partial(upgrade, migrations=migrations))
        assert await found("docker") == [3, 2, 1]
        assert await found('"in the end"') == [1]
        assert await found('"the end"') == [2, 1]


async def test_what_waited_before_requesters_were_kept_has_its_own(empty_database_url: str) -> None:
    asked = {
        "id": "apr_1",
        "profile": "default",
        "session_id": "old",
        "turn_id": "trn_1",
        "call_id": "trn_1:1",
        "tool": "terminal",
        "subject": "rm -rf x",
        "decided_by": "",
        "created_at": BEGUN,
        "expires_at": BEGUN,
    }

    def fill(conn: Connection) -> None:
        store(conn, "old", [said("user", "tidy")])
        conn.execute(sa.insert(turn), _waiting({"platform": "telegram", "user_id": "47"}))
        conn.execute(sa.insert(approval), asked)

    async with Database(empty_database_url, "agent") as database:
        await database.migrate(partial(upgrade, migrations=migrations, to="0017"))
        await database.write(fill)
        await database.migrate(partial(upgrade, migrations=migrations))
        (waiting,) = await database.read(lambda conn: list_open(conn, "default", ""))
    assert (waiting.platform, waiting.requester) == ("telegram", "47")


def _waiting(origin: Mapping[str, str]) -> dict[str, Any]:
    """A turn that waits for somebody."""
    return {
        "id": "trn_1",
        "profile": "default",
        "session_id": "old",
        "kind": "user",
        "state": "WAITING_PERSON",
        "owner_endpoint": "",
        "epoch": 1,
        "version": 1,
        "attempt": 1,
        "stuck_at": 0,
        "stuck_count": 0,
        "cancel_requested": False,
        "request_digest": "",
        "request": {"origin": origin},
        "usage": {},
        "last_sequence": 1,
        "created_at": BEGUN,
    }
