"""Schedules: reading them, and when they fire; pure functions."""
