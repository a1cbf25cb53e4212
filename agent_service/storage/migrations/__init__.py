"""How the agent's schema came to be; `versions` holds one Alembic revision for each step."""

HEAD = "0019"
"""The revision that `agent_service.storage.schema` describes."""
