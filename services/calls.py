"""What both ends of a call agree on beside the contracts."""

from typing import Protocol

AUTHORIZATION_KEY = "authorization"
BEARER = "Bearer "


class CallObserver(Protocol):
    """Where the end of each call is counted; `method` is full, `status` a gRPC code's name."""

    def observe(self, method: str, status: str, seconds: float) -> None:
        """Counts one call that has ended."""
        ...
