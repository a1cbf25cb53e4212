"""Call metadata shared by clients and servers."""

import re
import secrets
from itertools import count
from typing import Protocol

from services.telemetry.logs import bound_ids
from services.telemetry.tracing import Metadata

AUTHORIZATION_KEY = "authorization"
BEARER = "Bearer "

METADATA_LIMITS = (("grpc.max_metadata_size", 32_768), ("grpc.absolute_max_metadata_size", 65_536))
"""Options of channels and servers: an error's details travel in the metadata, twice."""

_ID_KEYS = {
    "x-request-id": "request_id",
    "x-hermes-turn-id": "turn_id",
    "x-hermes-session-id": "session_id",
}
# Client ids end up in logs, so malformed ones are dropped.
_ID = re.compile(r"[A-Za-z0-9_.:-]{1,80}")


class CallObserver(Protocol):
    """Counts calls; `method` is full, `status` a gRPC code's name."""

    def started(self, method: str) -> None: ...

    def observe(self, method: str, status: str, seconds: float) -> None: ...


class IncomingIds:
    """Reads the ids that come with calls, to be bound while they are served."""

    def __init__(self) -> None:
        # A counter with a random start: a hundredth of the cost of a fresh random id.
        self._boot = secrets.token_hex(6)
        self._count = count(1)

    def read(self, metadata: Metadata) -> dict[str, str]:
        """Return a call's ids; there is always a `request_id`."""
        ids: dict[str, str] = {}
        for key, value in metadata:
            name = _ID_KEYS.get(key)
            if name is not None and isinstance(value, str) and _ID.fullmatch(value):
                ids[name] = value
        if "request_id" not in ids:
            ids["request_id"] = f"req_{self._boot}_{next(self._count)}"
        return ids


def outgoing_ids() -> Metadata:
    """Return the bound ids as metadata of an outgoing call."""
    ids = bound_ids()
    return tuple((key, ids[name]) for key, name in _ID_KEYS.items() if name in ids)
