"""How the agent's schema came to be; `versions` holds one Alembic revision for each step."""

from agent_service.storage.schema import metadata
from agent_service.storage.search import index

# The index is here for its table, which the MetaData has once it is imported.
__all__ = ["HEAD", "OLDEST_RELEASE", "index", "metadata"]

HEAD = "0003"
"""The revision that the MetaData describes."""

OLDEST_RELEASE = "0.1.0"
"""The latest release that a step's `contracts` names: it and those after it run on these tables."""
