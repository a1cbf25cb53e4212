"""What NetworkPolicies let through, by their definition.

A pod that any policy selects for a direction is closed in it but for what the rules of those
policies allow, added up; both ends must let a connection through.
"""

from collections.abc import Iterable, Iterator, Mapping
from ipaddress import ip_address, ip_network
from typing import Any

from msgspec import Struct

Json = dict[str, Any]


class Place(Struct, frozen=True):
    """Somebody in the cluster, or an address outside of it."""

    name: str
    labels: Mapping[str, str] = {}
    namespace: Mapping[str, str] = {}
    """Labels of the namespace; none where it is no pod."""
    address: str = ""
    """Of what is no pod."""


class Network:
    """What a set of policies, of any namespaces, lets through."""

    def __init__(self, policies: Iterable[Json]) -> None:
        self._policies = list(policies)

    def lets(self, source: Place, target: Place, port: int, protocol: str = "TCP") -> bool:
        """Whether a connection comes about."""
        return self.leaves(source, target, port, protocol) and self.enters(
            source, target, port, protocol
        )

    def leaves(self, source: Place, target: Place, port: int, protocol: str = "TCP") -> bool:
        """Whether whoever connects may."""
        return bool(source.address) or self._open("Egress", source, target, (port, protocol))

    def enters(self, source: Place, target: Place, port: int, protocol: str = "TCP") -> bool:
        """Whether whoever is connected to may be."""
        return bool(target.address) or self._open("Ingress", target, source, (port, protocol))

    def _open(self, direction: str, own: Place, other: Place, wanted: tuple[int, str]) -> bool:
        chosen = [each for each in self._policies if _selects_pod(each, own, direction)]
        if not chosen:
            return True
        field, peers = ("ingress", "from") if direction == "Ingress" else ("egress", "to")
        return any(
            _has_port(rule.get("ports"), wanted) and _has_peer(rule.get(peers), policy, other)
            for policy in chosen
            for rule in policy["spec"].get(field) or ()
        )


def _selects_pod(policy: Json, pod: Place, direction: str) -> bool:
    spec: Json = policy["spec"]
    implied = ["Ingress", *(["Egress"] if spec.get("egress") else [])]
    return (
        direction in (spec.get("policyTypes") or implied)
        and pod.namespace.get("kubernetes.io/metadata.name") == policy["metadata"]["namespace"]
        and selects(spec["podSelector"], pod.labels)
    )


def _has_peer(peers: list[Json] | None, policy: Json, other: Place) -> bool:
    if not peers:
        return True
    return any(_is_peer(peer, policy, other) for peer in peers)


def _is_peer(peer: Json, policy: Json, other: Place) -> bool:
    if block := peer.get("ipBlock"):
        return bool(other.address) and _in_block(block, other.address)
    if other.address:
        return False
    if "namespaceSelector" in peer:
        at_home = selects(peer["namespaceSelector"], other.namespace)
    else:
        own = policy["metadata"]["namespace"]
        at_home = other.namespace.get("kubernetes.io/metadata.name") == own
    return at_home and selects(peer.get("podSelector") or {}, other.labels)


def _in_block(block: Json, address: str) -> bool:
    found = ip_address(address)
    if found not in ip_network(block["cidr"]):
        return False
    return not any(found in ip_network(each) for each in block.get("except") or ())


def _has_port(ports: list[Json] | None, wanted: tuple[int, str]) -> bool:
    if not ports:
        return True
    number, protocol = wanted
    return any(
        each.get("protocol", "TCP") == protocol
        and each.get("port", number) <= number <= each.get("endPort", each.get("port", number))
        for each in ports
    )


def selects(selector: Json, labels: Mapping[str, str]) -> bool:
    """Whether a label selector matches; an empty one matches everything."""
    return all(_matches(selector, labels))


def _matches(selector: Json, labels: Mapping[str, str]) -> Iterator[bool]:
    wanted: Json = selector.get("matchLabels") or {}
    for key, value in wanted.items():
        yield labels.get(key) == value
    for each in selector.get("matchExpressions") or ():
        value, values = labels.get(each["key"]), each.get("values") or ()
        match each["operator"]:
            case "In":
                yield value in values
            case "NotIn":
                yield value not in values
            case "Exists":
                yield value is not None
            case _:
                yield value is None
