"""Migrations of the sample schema."""

HEAD = "0002"

OLDEST_RELEASE = "0.1.0"
"""Nothing was taken away."""
