"""Addresses of services: `unix:/path/to/socket`, `host:port`, or `host:port#name`."""

from ipaddress import ip_address
from pathlib import Path

from msgspec import Struct

from services.errors import InvalidArgument
from services.home.paths import MAX_SOCKET_PATH_BYTES


class UnixAddress(Struct, frozen=True):
    """A socket file on this machine."""

    path: Path

    @property
    def target(self) -> str:
        return f"unix:{self.path}"

    @property
    def is_local(self) -> bool:
        """Whether connections stay on this machine."""
        return True

    def __str__(self) -> str:
        return f"unix:{self.path}"


class TcpAddress(Struct, frozen=True):
    """A host name or IP address and a port; a listener's port 0 is chosen by the system."""

    host: str
    port: int
    server_name: str = ""
    """The name in its certificate, if that is not the host."""

    @property
    def target(self) -> str:
        """The address for a gRPC client, which uses all addresses of the name."""
        return f"dns:///{self}"

    @property
    def is_local(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


Address = UnixAddress | TcpAddress


def parse_address(text: str) -> Address:
    """Parse an address; in `10.0.0.7:7401#agent.example.org`, the name is its certificate's."""
    scheme, separator, rest = text.partition(":")
    if separator and scheme == "unix":
        return _unix(text, rest)
    place, _, server_name = text.removeprefix("dns:///").partition("#")
    host, separator, port = place.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise InvalidArgument(
            f"{text!r} is not an address; write host:port or unix:/path/to/socket"
        )
    return TcpAddress(host, int(port), server_name)


def _unix(text: str, rest: str) -> UnixAddress:
    path = rest.removeprefix("//")
    if not path.startswith("/"):
        raise InvalidArgument(f"{text!r} needs an absolute path: unix:/path/to/socket")
    if len(path.encode()) > MAX_SOCKET_PATH_BYTES:
        raise InvalidArgument(
            f"the socket path {path} is longer than {MAX_SOCKET_PATH_BYTES} bytes; choose another"
        )
    return UnixAddress(Path(path))
