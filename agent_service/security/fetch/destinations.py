"""Decides which URLs may be fetched and which addresses connected to.

A name is resolved once, all its addresses are checked, and the connection uses one of them, so DNS
rebinding has no effect.
"""

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from urllib.parse import urlsplit

from msgspec import Struct

from services.rpc.public_addresses import Address, AddressVetting, Network, address_of

PORTS = frozenset({80, 443})
DEFAULT_PORTS = {"http": 80, "https": 443}
MAX_URL_CHARACTERS = 8_192
RESOLVE_TIMEOUT_S = 10.0

_NAT64 = IPv6Network("64:ff9b::/96")
# Cloud metadata services hand out credentials, so no allowed network includes them.
_METADATA = frozenset(
    map(
        ip_address,
        (
            *("100.100.100.200", "168.63.129.16", "169.254.169.254", "169.254.170.2"),
            *("169.254.170.23", "192.0.0.192", "fd00:ec2::23", "fd00:ec2::254", "fd20:ce::254"),
        ),
    )
)
_NUMERIC_LABEL = re.compile(r"0x[0-9a-f]*|[0-9]+", re.IGNORECASE)
_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)(?:\.(?!-)[a-z0-9_-]{1,63}(?<!-))*")

Resolve = Callable[[str], Awaitable[Sequence[str]]]


class FetchRefused(Exception):
    """The URL leads where fetches may not go; the message contains no secret."""


class FetchFailed(Exception):
    """The URL is allowed, but the fetch failed; the message contains no secret."""


class Origin(Struct, frozen=True):
    """Scheme, host and port; host and port are canonical."""

    scheme: str
    host: str
    port: int

    @classmethod
    def parse(cls, url: str) -> "Origin":
        """The origin of a URL; FetchRefused if it is not a valid URL to fetch."""
        if len(url) > MAX_URL_CHARACTERS:
            raise FetchRefused(f"the URL is longer than {MAX_URL_CHARACTERS:,} characters")
        if "\\" in url or any(ord(letter) <= 32 or ord(letter) == 127 for letter in url):
            raise FetchRefused("the URL has spaces, backslashes or control characters in it")
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise FetchRefused("the URL is malformed") from None
        scheme = parts.scheme.lower()
        if scheme not in DEFAULT_PORTS:
            raise FetchRefused("only http and https URLs are fetched")
        if "@" in parts.netloc:
            raise FetchRefused("URLs with a user name or a password are not fetched")
        if port == 0:
            raise FetchRefused("port 0 is not valid")
        return cls(scheme, _canonical(parts.hostname or ""), port or DEFAULT_PORTS[scheme])


async def system_addresses(host: str) -> Sequence[str]:
    """Every address that the system's resolver has for a name."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class Destinations:
    """Decides where fetches may go."""

    def __init__(
        self,
        private: Iterable[Network] = (),
        ports: Iterable[int] = (),
        trusted: Iterable[str] = (),
        resolve: Resolve = system_addresses,
    ) -> None:
        """`private` networks, `ports` and the origins of `trusted` URLs are allowed as well."""
        self._private = tuple(private)
        self._vetting = AddressVetting()
        self._ports = PORTS | frozenset(ports)
        self._trusted = frozenset(Origin.parse(url) for url in trusted)
        self._resolve = resolve

    async def addresses(self, url: str) -> Sequence[Address]:
        """The addresses of a URL; FetchRefused unless all are allowed."""
        origin = Origin.parse(url)
        trusted = origin in self._trusted
        if origin.port not in self._ports and not trusted:
            allowed = ", ".join(map(str, sorted(self._ports)))
            raise FetchRefused(f"port {origin.port} is not allowed; allowed are {allowed}")
        found = await self._addresses(origin.host)
        for address in found:
            if not trusted and not await asyncio.to_thread(self._allows, address):
                raise FetchRefused(
                    f"{origin.host} leads to an address that is not public "
                    "(the owner can open private networks with security.allow_private_networks)"
                )
        return found

    async def _addresses(self, host: str) -> Sequence[Address]:
        if literal := address_of(host):
            return [literal]
        try:
            async with asyncio.timeout(RESOLVE_TIMEOUT_S):
                found = await self._resolve(host)
        except (OSError, UnicodeError):
            found = ()
        addresses = [address for text in found if (address := address_of(text)) is not None]
        if not addresses:
            raise FetchFailed(f"{host} has no address")
        return addresses

    def _allows(self, address: Address) -> bool:
        address = inner_address(address)
        if address in _METADATA:
            return False
        if any(address in network for network in self._private):
            return True
        return self._vetting.allows(address)


def inner_address(address: Address) -> Address:
    """The IPv4 address inside an IPv6 address, or the address itself.

    6to4 and Teredo also embed one, but are never public addresses.
    """
    if isinstance(address, IPv6Address) and not address.scope_id:
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _NAT64:
            return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address


def _canonical(host: str) -> str:
    """The canonical host; FetchRefused if resolvers may interpret it differently."""
    if not host or "%" in host:
        raise FetchRefused("the URL has no usable host")
    if address := address_of(host):
        return str(address)
    if ":" in host:
        raise FetchRefused("the URL has no usable host")
    try:
        # The codec also folds full-width digits and dots, as resolvers would.
        name = host.rstrip(".").encode("idna").decode("ascii").lower()
    except UnicodeError:
        raise FetchRefused("the host's name is malformed") from None
    if address := address_of(name):
        return str(address)
    # Some programs read 2130706433, 0x7f.1 and 0177.0.0.1 as addresses, others as names.
    if _NUMERIC_LABEL.fullmatch(name.rpartition(".")[2]):
        raise FetchRefused("an address is written as four decimal numbers, such as 192.0.2.1")
    if len(name) > 253 or not _NAME.fullmatch(name):
        raise FetchRefused("the host's name is malformed")
    return name
