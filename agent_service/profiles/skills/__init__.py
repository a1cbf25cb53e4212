"""The skill library: what the agent has learned to do, as files of the home."""
