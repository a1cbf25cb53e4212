"""Who has which sandbox, for how long, and how callers prove it."""
