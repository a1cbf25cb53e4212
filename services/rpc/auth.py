"""Authentication and authorization of callers: identities, tokens and the policy of methods.

Over TCP, a client certificate with the URI name `spiffe://hermes/<identity>` proves an identity;
over the Unix socket, or loopback without certificates, its bearer token. A certificate always wins
over a token.
"""

import hmac
import secrets
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from enum import StrEnum
from hashlib import sha256

from services.errors import PermissionDenied, Unauthenticated
from services.rpc.calls import BEARER

SPIFFE_PREFIX = "spiffe://hermes/"

OPEN_METHODS = frozenset({"/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/List"})
"""Open to unauthenticated probes; the answer has only a status."""

ANY_IDENTITY_METHODS = frozenset({"/grpc.health.v1.Health/Watch"})
"""Open to all authenticated callers."""


class Identity(StrEnum):
    """A caller of services."""

    AGENT = "agent"
    EXECUTOR = "executor"
    GATEWAY = "gateway"
    SCHEDULER = "scheduler"
    OPERATOR = "operator"


Policy = Mapping[str, frozenset[Identity]]
"""Maps a full method name, such as `/hermes.agent.v1.TurnService/StartTurn`, to its callers."""

Tokens = Mapping[Identity, str]

_caller: ContextVar[Identity] = ContextVar("caller")


def allow(service: str, methods: Mapping[str, Iterable[Identity]]) -> Policy:
    """Return the policy of one service, from its full name and the callers of each method."""
    return {f"/{service}/{method}": frozenset(callers) for method, callers in methods.items()}


def new_tokens() -> Tokens:
    """Return a random token for each identity, kept in memory for the life of the process."""
    return {identity: secrets.token_urlsafe(32) for identity in Identity}


def caller() -> Identity:
    """Return who made the current call; raises Unauthenticated outside of one."""
    try:
        return _caller.get()
    except LookupError:
        raise Unauthenticated("nobody has been identified here") from None


class Authenticator:
    """Identifies callers."""

    def __init__(self, tokens: Tokens | None = None) -> None:
        # Digests have equal lengths for the comparison, and keep tokens out of memory dumps.
        self._digests = tuple(
            (identity, _digest(token)) for identity, token in (tokens or {}).items()
        )

    def identify(self, peer: Mapping[str, Iterable[bytes]], authorization: str | None) -> Identity:
        """Return the identity that a call proves; raises Unauthenticated."""
        if b"ssl" in peer.get("transport_security_type", ()):
            return _of_certificate(peer)
        if authorization is None or not authorization.startswith(BEARER):
            raise Unauthenticated("this call needs a certificate or a bearer token")
        return self._of_token(authorization.removeprefix(BEARER))

    def _of_token(self, token: str) -> Identity:
        shown, found = _digest(token), None
        for identity, digest in self._digests:
            # Compare all, so that the time does not tell which one matches.
            if hmac.compare_digest(shown, digest):
                found = identity
        if found is None:
            raise Unauthenticated("the bearer token is not valid")
        return found


class Gate:
    """Admits calls that the policy allows, and no others."""

    def __init__(self, authenticator: Authenticator, policies: Iterable[Policy]) -> None:
        self._authenticator = authenticator
        self._policy: dict[str, frozenset[Identity]] = {}
        for policy in policies:
            if both := sorted(self._policy.keys() & policy.keys()):
                raise ValueError(f"two components have a policy for {', '.join(both)}")
            self._policy |= policy

    def admit(
        self, method: str, peer: Mapping[str, Iterable[bytes]], authorization: str | None
    ) -> Identity | None:
        """Return the caller, or None if open; raises Unauthenticated or PermissionDenied."""
        if method in OPEN_METHODS:
            return None
        identity = self._authenticator.identify(peer, authorization)
        if identity not in self._policy.get(method, ()) and method not in ANY_IDENTITY_METHODS:
            raise PermissionDenied(f"the identity {identity} may not call {method}")
        _caller.set(identity)
        return identity


def identity_named(uri: str) -> Identity | None:
    """Return our identity in the URI name of a certificate, or None."""
    try:
        return Identity(uri.removeprefix(SPIFFE_PREFIX) if uri.startswith(SPIFFE_PREFIX) else "")
    except ValueError:
        return None


def _of_certificate(peer: Mapping[str, Iterable[bytes]]) -> Identity:
    names = [name.decode(errors="replace") for name in peer.get("peer_uri", ())]
    # Several would let a caller choose.
    identity = identity_named(names[0]) if len(names) == 1 else None
    if identity is None:
        raise Unauthenticated(
            f"the certificate does not have one URI name {SPIFFE_PREFIX}<identity>"
        )
    return identity


def _digest(token: str) -> bytes:
    return sha256(token.encode()).digest()
