"""Identifiers: a prefix for the kind, and a part that sorts by time."""

import base64
import secrets
import time
from datetime import datetime

_RANDOM_BYTES = 10


def new_id(prefix: str) -> str:
    """Return `prefix_` and 26 lower-case characters: 48 bits of milliseconds, 80 random bits."""
    milliseconds = time.time_ns() // 1_000_000
    raw = milliseconds.to_bytes(6, "big") + secrets.token_bytes(_RANDOM_BYTES)
    # The extended hex alphabet keeps the order of the bytes; the usual base32 one does not.
    return f"{prefix}_{base64.b32hexencode(raw).decode().rstrip('=').lower()}"


def new_session_id(now: datetime) -> str:
    """Return a session id in the home's format, `YYYYMMDD_HHMMSS_<6 hex>`."""
    return f"{now:%Y%m%d_%H%M%S}_{secrets.token_hex(3)}"
