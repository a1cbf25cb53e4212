"""Commands in sandboxes: those that run, who watches them, what is kept of those that ended."""
