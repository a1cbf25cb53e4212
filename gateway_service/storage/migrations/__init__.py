"""How the gateway's schema came to be; `versions` holds one Alembic revision for each step."""

from gateway_service.storage.schema import metadata

__all__ = ["HEAD", "OLDEST_RELEASE", "metadata"]

HEAD = "0002"
"""The revision that the MetaData describes."""

OLDEST_RELEASE = "0.1.0"
"""The latest release that a step's `contracts` names: it and those after it run on these tables."""
