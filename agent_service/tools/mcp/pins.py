"""What MCP servers offer, as a profile's people last agreed to."""

from collections.abc import Mapping

import sqlalchemy as sa
from sqlalchemy import Connection

from agent_service.records.mcp import ServerCatalog
from agent_service.storage.schema import mcp_server
from services.database import Prepared, upsert

_ALL = sa.select(mcp_server).where(mcp_server.c.profile == sa.bindparam("profile"))
_PUT = Prepared(upsert(mcp_server, ("profile", "name"), ("catalog",)))


def all_of(conn: Connection, profile: str) -> Mapping[str, ServerCatalog]:
    """Return a profile's servers by name."""
    return {row.name: row.catalog for row in conn.execute(_ALL, {"profile": profile})}


def put(conn: Connection, profile: str, name: str, catalog: ServerCatalog) -> None:
    """Store what a server may offer."""
    _PUT.run(conn, {"profile": profile, "name": name, "catalog": catalog})
