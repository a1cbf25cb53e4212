"""Who calls, and what each may call: identities, tokens and the per-method policy.

A caller over TCP proves its identity by a client certificate, whose URI name is
`spiffe://hermes/<identity>`; a caller over the Unix socket, or over loopback without certificates,
by the bearer token of the identity. A certificate is never outvoted by a token.
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
"""What a probe may ask without saying who it is; the answer has no more than a status."""

ANY_IDENTITY_METHODS = frozenset({"/grpc.health.v1.Health/Watch"})
"""What everybody who is known may call."""


class Identity(StrEnum):
    """Who can call a service."""

    AGENT = "agent"
    EXECUTOR = "executor"
    GATEWAY = "gateway"
    SCHEDULER = "scheduler"
    OPERATOR = "operator"


Policy = Mapping[str, frozenset[Identity]]
"""Full method name, such as `/hermes.agent.v1.TurnService/StartTurn`, to who may call it."""

Tokens = Mapping[Identity, str]

_caller: ContextVar[Identity] = ContextVar("caller")


def allow(service: str, methods: Mapping[str, Iterable[Identity]]) -> Policy:
    """Returns the policy of one service, from its full name and who may call each method."""
    return {f"/{service}/{method}": frozenset(callers) for method, callers in methods.items()}


def new_tokens() -> Tokens:
    """Returns a fresh random token for each identity, to live in memory as long as the process."""
    return {identity: secrets.token_urlsafe(32) for identity in Identity}


def caller() -> Identity:
    """Returns who made the call that is being served; fails with Unauthenticated outside of one."""
    try:
        return _caller.get()
    except LookupError:
        raise Unauthenticated("nobody has been identified here") from None


class Authenticator:
    """Finds out who calls."""

    def __init__(self, tokens: Tokens | None = None) -> None:
        # Digests: what is compared has the same length for all, and a memory dump has no tokens.
        self._digests = tuple(
            (identity, _digest(token)) for identity, token in (tokens or {}).items()
        )

    def identify(self, peer: Mapping[str, Iterable[bytes]], authorization: str | None) -> Identity:
        """Returns the identity that a call proves; fails with Unauthenticated."""
        if b"ssl" in peer.get("transport_security_type", ()):
            return _of_certificate(peer)
        if authorization is None or not authorization.startswith(BEARER):
            raise Unauthenticated("this call needs a certificate or a bearer token")
        return self._of_token(authorization.removeprefix(BEARER))

    def _of_token(self, token: str) -> Identity:
        shown, found = _digest(token), None
        for identity, digest in self._digests:
            # All of them, whichever matches: the time taken tells nothing.
            if hmac.compare_digest(shown, digest):
                found = identity
        if found is None:
            raise Unauthenticated("the bearer token is not valid")
        return found


class Gate:
    """Lets a call in when a policy says that its caller may make it, and nothing else."""

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
        """Returns the caller, or None where a method is open to all; fails with Unauthenticated or
        PermissionDenied.
        """
        if method in OPEN_METHODS:
            return None
        identity = self._authenticator.identify(peer, authorization)
        if identity not in self._policy.get(method, ()) and method not in ANY_IDENTITY_METHODS:
            raise PermissionDenied(f"the identity {identity} may not call {method}")
        _caller.set(identity)
        return identity


def identity_named(uri: str) -> Identity | None:
    """The identity that the URI name of a certificate is for, if it is one of ours."""
    try:
        return Identity(uri.removeprefix(SPIFFE_PREFIX) if uri.startswith(SPIFFE_PREFIX) else "")
    except ValueError:
        return None


def _of_certificate(peer: Mapping[str, Iterable[bytes]]) -> Identity:
    names = [name.decode(errors="replace") for name in peer.get("peer_uri", ())]
    # More than one would let a caller choose.
    identity = identity_named(names[0]) if len(names) == 1 else None
    if identity is None:
        raise Unauthenticated(
            f"the certificate does not have one URI name {SPIFFE_PREFIX}<identity>"
        )
    return identity


def _digest(token: str) -> bytes:
    return sha256(token.encode()).digest()
