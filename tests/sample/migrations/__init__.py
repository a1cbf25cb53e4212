"""Migrations of the sample schema."""

from tests.sample.schema import metadata

__all__ = ["HEAD", "OLDEST_RELEASE", "metadata"]

HEAD = "0002"

OLDEST_RELEASE = "0.1.0"
"""Nothing was taken away."""
