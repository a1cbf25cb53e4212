"""Network policies."""

from executor_service.egress.policy import NetworkMode, NetworkPolicy, Rule
from hermes.executor.v1 import network_pb2
from services.errors import InvalidArgument

_MOST_PORTS = 32

MODES = {
    NetworkMode.NONE: network_pb2.NETWORK_MODE_NONE,
    NetworkMode.ALLOW_LIST: network_pb2.NETWORK_MODE_ALLOW_LIST,
    NetworkMode.OPEN: network_pb2.NETWORK_MODE_OPEN,
}
_WISHES = {wire: mode for mode, wire in MODES.items()}


def policy(field: str, wire: network_pb2.NetworkPolicy) -> NetworkPolicy:
    """The policy that a request asks for; fails with InvalidArgument."""
    mode = _WISHES.get(wire.mode)
    try:
        if mode is None:
            raise ValueError("a mode is wanted")  # noqa: TRY301 - a wish like the others
        return NetworkPolicy(mode, tuple(map(_rule, wire.rules)))
    except ValueError as error:
        raise InvalidArgument(f"{field}: {error}", fields={field: str(error)}) from error


def policy_to_wire(found: NetworkPolicy) -> network_pb2.NetworkPolicy:
    """A policy as it is now."""
    return network_pb2.NetworkPolicy(
        mode=MODES[found.mode],
        rules=[network_pb2.NetworkRule(host=rule.host, ports=rule.ports) for rule in found.rules],
        generation=found.generation,
    )


def _rule(wire: network_pb2.NetworkRule) -> Rule:
    if len(wire.ports) > _MOST_PORTS:
        raise ValueError(f"at most {_MOST_PORTS} ports of a host are taken")
    return Rule.of(wire.host, wire.ports)
