"""What the agent keeps of its user and of its own experience, across sessions."""
