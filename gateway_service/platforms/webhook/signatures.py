"""Checks who sent a webhook, before anything reads it."""

import hashlib
import hmac
import re
from collections.abc import Mapping

from msgspec import Struct

WINDOW_S = 300
"""How old or early a signed time may be."""
_TIME = re.compile(r"[0-9]{1,12}")
_TIMED = re.compile(
    r"t=([0-9]{1,12}),(?:v[0-9]=[0-9a-f]+,)*v1=([0-9a-f]{64})(?:,v[0-9]=[0-9a-f]+)*"
)
_SIGNATURES = ("x-hub-signature-256", "stripe-signature", "x-webhook-signature", "x-signature")
_TIMES = ("x-webhook-timestamp", "x-timestamp")
_IDS = ("x-gitlab-event-uuid", "idempotency-key")


class Delivery(Struct, frozen=True):
    """A delivery whose sender knows the secret."""

    content: bytes
    """What is the same if it is sent again; what the sender has signed, as others could change the
    rest."""
    is_timed: bool = False
    """Whether the content includes the time of sending."""


def verify(secret: str, headers: Mapping[str, str], body: bytes, now_s: float) -> Delivery | None:
    """Return the delivery; None if its sender may not know the secret."""
    if token := headers.get("x-gitlab-token"):
        if not _are_equal(token, secret):
            return None
        named = next((headers[name] for name in _IDS if headers.get(name)), "")
        return Delivery(_encode(named) or body)
    given = next((headers[name] for name in _SIGNATURES if headers.get(name)), "")
    time = next((headers[name] for name in _TIMES if headers.get(name)), "")
    if found := _TIMED.fullmatch(given):
        time, given = found.groups()
    if time and not (_TIME.fullmatch(time) and abs(now_s - int(time)) <= WINDOW_S):
        return None
    content = f"{time}.".encode() + body if time else body
    digest = hmac.new(secret.encode(), content, hashlib.sha256).hexdigest()
    if not _are_equal(given.removeprefix("sha256="), digest):
        return None
    return Delivery(content, is_timed=bool(time))


def _are_equal(given: str, wanted: str) -> bool:
    return hmac.compare_digest(_encode(given), _encode(wanted))


def _encode(header: str) -> bytes:
    # A header that is not UTF-8 has surrogates.
    return header.encode(errors="replace")
