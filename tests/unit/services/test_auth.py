"""Who is believed to be who, and what each may call."""

import pytest

from services.errors import PermissionDenied, Unauthenticated
from services.rpc.auth import (
    ANY_IDENTITY_METHODS,
    OPEN_METHODS,
    Authenticator,
    Gate,
    Identity,
    allow,
    caller,
    new_tokens,
)
from services.rpc.retries import IDEMPOTENT
from tests.unit.services.descriptors import methods

UNIX = {"transport_security_type": [b"insecure"]}
GET_TURN = "/hermes.agent.v1.TurnService/GetTurn"
GATEWAY_ONLY = allow("hermes.agent.v1.TurnService", {"GetTurn": {Identity.GATEWAY}})


def certificate(*names: bytes) -> dict[str, list[bytes]]:
    return {"transport_security_type": [b"ssl"], "peer_uri": list(names)}


@pytest.mark.parametrize("identity", Identity)
def test_each_token_is_one_identity(identity: Identity) -> None:
    tokens = new_tokens()
    authenticator = Authenticator(tokens)
    assert authenticator.identify(UNIX, f"Bearer {tokens[identity]}") is identity


def test_tokens_are_long_and_never_the_same() -> None:
    tokens = [*new_tokens().values(), *new_tokens().values()]
    assert len(set(tokens)) == 2 * len(Identity)
    assert min(map(len, tokens)) >= 43


def test_tokens_are_not_kept() -> None:
    tokens = new_tokens()
    kept = repr(vars(Authenticator(tokens)))
    assert not any(token in kept for token in tokens.values())


@pytest.mark.parametrize(
    "shown", [None, "", "Bearer", "Bearer ", "bearer right", "Basic right", "right", "Bearer wrong"]
)
def test_anything_else_is_nobody(shown: str | None) -> None:
    authenticator = Authenticator({Identity.AGENT: "right"})
    assert authenticator.identify(UNIX, "Bearer right") is Identity.AGENT
    with pytest.raises(Unauthenticated):
        authenticator.identify(UNIX, shown)


def test_without_tokens_nobody_has_one() -> None:
    with pytest.raises(Unauthenticated):
        Authenticator().identify(UNIX, "Bearer ")


@pytest.mark.parametrize("identity", Identity)
def test_a_certificate_names_its_identity(identity: Identity) -> None:
    name = f"spiffe://hermes/{identity}".encode()
    assert Authenticator().identify(certificate(name), None) is identity


@pytest.mark.parametrize(
    "names",
    [
        (),
        (b"spiffe://hermes/",),
        (b"spiffe://hermes/intruder",),
        (b"spiffe://hermes/agent/x",),
        (b"spiffe://hermes.example/agent",),
        (b"https://hermes/agent",),
        (b"\xff\xfe",),
        (b"spiffe://hermes/agent", b"spiffe://hermes/operator"),
    ],
)
def test_a_certificate_that_names_none_or_two_is_nobody(names: tuple[bytes, ...]) -> None:
    tokens = new_tokens()
    valid = f"Bearer {tokens[Identity.OPERATOR]}"
    with pytest.raises(Unauthenticated):
        Authenticator(tokens).identify(certificate(*names), valid)


def test_the_gate_lets_in_whom_the_policy_names() -> None:
    tokens = new_tokens()
    gate = Gate(Authenticator(tokens), [GATEWAY_ONLY])
    assert gate.admit(GET_TURN, UNIX, f"Bearer {tokens[Identity.GATEWAY]}") is Identity.GATEWAY
    assert caller() is Identity.GATEWAY
    for identity in set(Identity) - {Identity.GATEWAY}:
        with pytest.raises(PermissionDenied, match=f"identity {identity} may not call"):
            gate.admit(GET_TURN, UNIX, f"Bearer {tokens[identity]}")


def test_no_method_of_any_contract_is_open_by_default() -> None:
    tokens = new_tokens()
    gate = Gate(Authenticator(tokens), [])
    assert len(methods()) > 30
    for method in methods():
        for identity in Identity:
            with pytest.raises(PermissionDenied):
                gate.admit(method, UNIX, f"Bearer {tokens[identity]}")
        with pytest.raises(Unauthenticated):
            gate.admit(method, UNIX, None)


def test_only_health_is_open() -> None:
    gate = Gate(Authenticator({Identity.EXECUTOR: "right"}), [])
    for method in OPEN_METHODS | ANY_IDENTITY_METHODS:
        assert method.startswith("/grpc.health.v1.Health/")
    for method in OPEN_METHODS:
        assert gate.admit(method, UNIX, None) is None
    for method in ANY_IDENTITY_METHODS:
        assert gate.admit(method, UNIX, "Bearer right") is Identity.EXECUTOR
        with pytest.raises(Unauthenticated):
            gate.admit(method, UNIX, None)


def test_two_policies_for_one_method_are_a_mistake() -> None:
    with pytest.raises(ValueError, match=GET_TURN):
        Gate(Authenticator(), [GATEWAY_ONLY, GATEWAY_ONLY])


def test_the_methods_that_are_repeated_exist_and_are_unary() -> None:
    unary = {
        name
        for name, method in methods().items()
        if not method.client_streaming and not method.server_streaming
    }
    named = {f"/{service}/{method}" for service, names in IDEMPOTENT.items() for method in names}
    assert named <= unary
