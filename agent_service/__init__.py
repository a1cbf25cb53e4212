"""The agent service: turns, their journal, sessions and tools."""
