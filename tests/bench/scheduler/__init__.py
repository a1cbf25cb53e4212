"""The scheduler alone, with the agent that its runs go to."""
