"""How the schema came to be; `versions` holds one Alembic revision for each step."""

HEAD = "0001"
"""The revision that `schema.py` stands for."""

OLDEST_RELEASE = "0.1.0"
"""The latest release that a step's `contracts` names: it and those after it run on these tables."""
