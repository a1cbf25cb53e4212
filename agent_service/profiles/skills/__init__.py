"""The skill library: files of the home that say what the agent has learned to do."""
