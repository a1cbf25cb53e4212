"""`hermes rl`."""
