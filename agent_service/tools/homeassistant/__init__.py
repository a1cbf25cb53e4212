"""Things and services of a Home Assistant."""
