"""The agent's tables and the statements over them."""
