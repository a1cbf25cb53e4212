"""The agent's tables and the statements on them."""
