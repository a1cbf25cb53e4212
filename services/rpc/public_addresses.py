"""Which internet addresses may be reached: the public ones.

Connect to the checked address, not to its name, which could lead elsewhere later.
"""

import socket
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_REFUSED_4 = [
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",  # this host
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # carrier-grade NAT; metadata of some clouds
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # Azure's host agent, on a public address
        "169.254.0.0/16",  # link-local, metadata
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments; metadata of some clouds
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",  # private
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/3",  # multicast, reserved, broadcast
    )
]
_GLOBAL_6 = IPv6Network("2000::/3")
"""The rest is loopback, link-local, private, multicast, or mapped or NAT64 IPv4."""
_REFUSED_6 = [
    IPv6Network(text)
    for text in (
        "2001::/23",  # protocol assignments such as Teredo
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4, which embeds an IPv4 address
        "3fff::/20",  # documentation
    )
]


class AddressVetting:
    """Decides which addresses may be reached."""

    def __init__(self, refused: Iterable[Network] = (), public: Iterable[Network] = ()) -> None:
        """`refused` adds forbidden ranges; `public` always counts as public."""
        self._refused_4 = [*_REFUSED_4, *(n for n in refused if isinstance(n, IPv4Network))]
        self._refused_6 = [*_REFUSED_6, *(n for n in refused if isinstance(n, IPv6Network))]
        self._public = tuple(public)

    def allows(self, address: Address) -> bool:
        """Return whether it is a public address of another machine."""
        if any(address in network for network in self._public):
            return True
        if isinstance(address, IPv4Address):
            refused = any(address in network for network in self._refused_4)
        else:
            # A scoped address is link-local, whatever its bits.
            is_global = address in _GLOBAL_6 and not address.scope_id
            refused = not is_global or any(address in network for network in self._refused_6)
        return not refused and not _is_own(address)


_LOCAL_NAMES = (".local", ".localhost", ".lan", ".internal", ".home.arpa", ".svc")


def is_local_host(host: str) -> bool:
    """Return whether a host is this machine or in its network, by its address or name alone."""
    if (address := address_of(host)) is not None:
        return not address.is_global
    return bool(host) and ("." not in host or host.lower().endswith(_LOCAL_NAMES))


def ranges(texts: Sequence[str]) -> list[Network]:
    """Parse address ranges such as `10.96.0.0/12`; raises ValueError."""
    return [ip_network(text) for text in texts]


def address_of(host: str) -> Address | None:
    """Return the address if the host is one, not a name."""
    try:
        return ip_address(host)
    except ValueError:
        return None


def _is_own(address: Address) -> bool:
    """Return whether it is this machine's: then the source address equals the target."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.setblocking(False)
            probe.connect((str(address), 1))  # sends nothing
            return ip_address(probe.getsockname()[0]) == address
    except OSError:
        return False
