"""Where Anthropic's models are told what to keep in their cache, whoever passes it on."""

from collections.abc import Mapping

MARKED_MESSAGES = 3
"""The last messages that carry a cache mark; with the system prompt's the four that are allowed."""


def cache_control(ttl: str) -> Mapping[str, str]:
    """Return a mark that keeps what is before it for 5m or 1h."""
    return {"type": "ephemeral", **({"ttl": ttl} if ttl != "5m" else {})}
