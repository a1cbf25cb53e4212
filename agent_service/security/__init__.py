"""Judges commands and texts before they take effect."""
