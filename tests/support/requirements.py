"""The one place that decides between a visible skip and a failure for a missing real part."""

import os

import pytest

Skipped = pytest.skip.Exception
"""What `require` raises where a part may be missing."""


def require(name: str, available: bool, reason: str) -> None:
    """Skip when a real part is missing, fail when HERMES_REQUIRE (comma-separated) names it."""
    if available:
        return
    if name in required():
        pytest.fail(f"{name} is required here but missing: {reason}")
    pytest.skip(f"{name}: {reason}")


def required() -> set[str]:
    """The parts that must be there, as they are in continuous integration."""
    return {part.strip() for part in os.environ.get("HERMES_REQUIRE", "").split(",")}
