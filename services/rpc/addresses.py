"""Where a service listens or is found: `unix:/path/to/socket`, `host:port`, or `host:port#name`."""

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
        """The address as gRPC wants it."""
        return f"unix:{self.path}"

    @property
    def is_local(self) -> bool:
        """Whether nothing outside this machine is on the way."""
        return True

    def __str__(self) -> str:
        return f"unix:{self.path}"


class TcpAddress(Struct, frozen=True):
    """A host name or IP address and a port; port 0 lets the system choose one to listen on."""

    host: str
    port: int
    server_name: str = ""
    """The name that its certificate is for, where that is not the host."""

    @property
    def target(self) -> str:
        """The address as a gRPC client wants it: every address of the name is used."""
        return f"dns:///{self}"

    @property
    def is_local(self) -> bool:
        """Whether nothing outside this machine is on the way."""
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
    """Reads an address; fails with InvalidArgument, saying what one looks like.

    `10.0.0.7:7401#agent.example.org` is whoever is there with a certificate for that name.
    """
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
