"""What both ends of a call agree on beside the contracts."""

import re
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Protocol

from services.ids import new_id

AUTHORIZATION_KEY = "authorization"
BEARER = "Bearer "

METADATA_LIMITS = (("grpc.max_metadata_size", 32_768), ("grpc.absolute_max_metadata_size", 65_536))
"""Options of channels and servers: an error's details travel in the metadata, twice."""

_ID_KEYS = {
    "x-request-id": "request_id",
    "x-hermes-turn-id": "turn_id",
    "x-hermes-session-id": "session_id",
}
# What a client sends ends in logs, so it has the form of an id or is left out.
_ID = re.compile(r"[A-Za-z0-9_.:-]{1,80}")

Metadata = tuple[tuple[str, str | bytes], ...]

_ids: ContextVar[Mapping[str, str]] = ContextVar("ids")


class CallObserver(Protocol):
    """Where the end of each call is counted; `method` is full, `status` a gRPC code's name."""

    def observe(self, method: str, status: str, seconds: float) -> None:
        """Counts one call that has ended."""
        ...


def bind_ids(metadata: Metadata) -> str:
    """Binds the ids that came with a call for as long as it is served; returns the request's."""
    ids = {
        _ID_KEYS[key]: value
        for key, value in metadata
        if key in _ID_KEYS and isinstance(value, str) and _ID.fullmatch(value)
    }
    request_id = ids.setdefault("request_id", new_id("req"))
    _ids.set(ids)
    return request_id


def outgoing_ids() -> Metadata:
    """Returns the bound ids as metadata of a call that is about to be made."""
    ids = _ids.get({})
    return tuple((key, ids[name]) for key, name in _ID_KEYS.items() if name in ids)
