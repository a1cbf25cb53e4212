"""How the agent's schema came to be; `versions` holds one Alembic revision for each step."""

from agent_service.storage import profile_schema, search_index
from agent_service.storage.schema import metadata

# The first two are here for their tables, which the MetaData has once they are imported.
__all__ = ["HEAD", "OLDEST_RELEASE", "metadata", "profile_schema", "search_index"]

HEAD = "0001"
"""The revision that the MetaData describes."""

OLDEST_RELEASE = "0.1.0"
"""The latest release that a step's `contracts` names: it and those after it run on these tables."""
