"""Judges commands before they run."""
