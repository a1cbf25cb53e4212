"""What the agent remembers of its user and its own work across sessions."""
