"""The gateway's tables and the statements on them."""
