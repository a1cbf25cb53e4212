"""The scheduler's tables and the statements over them."""
