"""The agent's migrations lead to the schema that its code works with."""

from pathlib import Path

from agent_service.storage import migrations, profile_schema, search_index
from agent_service.storage.schema import metadata
from tests.migrations import assert_migrations_match
from tests.postgres import PostgresServer


async def test_the_migrations_end_at_the_schema(tmp_path: Path, postgres: PostgresServer) -> None:
    tables = (search_index.message_text, profile_schema.profile_file)
    assert {table.name for table in tables} <= metadata.tables.keys()
    await assert_migrations_match(metadata, migrations, tmp_path, postgres)
