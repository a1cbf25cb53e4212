"""Commands in sandboxes: running, watched, and recorded after their end."""
