"""The agent's migrations lead to the schema that its code works with."""

from pathlib import Path

from agent_service.storage import (
    budget_schema,
    grants,
    migrations,
    profile_schema,
    review_schema,
    search_schema,
    undo_schema,
    usage_schema,
    watch_schema,
)
from agent_service.storage.schema import metadata
from tests.migrations import assert_migrations_match
from tests.postgres import PostgresServer


async def test_the_migrations_end_at_the_schema(tmp_path: Path, postgres: PostgresServer) -> None:
    assert budget_schema.metadata is usage_schema.metadata is metadata
    tables = (
        search_schema.message_text,
        grants.grant,
        profile_schema.profile_file,
        review_schema.review,
        undo_schema.undone_message,
        watch_schema.watched_command,
    )
    assert {table.name for table in tables} <= metadata.tables.keys()
    await assert_migrations_match(metadata, migrations, tmp_path, postgres)
