"""How the gateway's schema came to be; `versions` holds one Alembic revision for each step."""

HEAD = "0006"
"""The revision that `gateway_service.storage.schema` describes."""
