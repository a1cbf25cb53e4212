"""What the agent asks of other services."""
