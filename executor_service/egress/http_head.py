"""The head of an HTTP/1 request, read strictly: what two readers could understand differently is
refused.
"""

import re
from collections.abc import Iterable
from typing import Self

from msgspec import Struct

from executor_service.egress.policy import Target

MAX_HEAD_BYTES = 64 * 1024
HEAD_END = b"\r\n\r\n"
_MAX_FIELDS = 200
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_TARGET = re.compile(r"[\x21-\x7e]+")
_AUTHORITY = re.compile(
    r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[^:@/?#\[\]]+))(?::(?P<port>\d{1,5}))?"
)
_OF_THIS_CONNECTION = frozenset(
    (
        *("connection", "keep-alive", "proxy-authorization", "proxy-connection"),
        *("te", "trailer", "upgrade"),
    )
)


class BadRequest(ValueError):
    """What came is no request that is passed on; the text says why."""


class OtherHost(BadRequest):
    """The request names two hosts: one to be let through, and one to be served by."""


class RequestHead(Struct, frozen=True):
    """The first line and the fields of a request."""

    method: str
    target: str
    fields: tuple[tuple[str, str], ...]
    """Names as they were written."""

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """The head in data, which ends in an empty line; fails with BadRequest."""
        first, *lines = data.removesuffix(HEAD_END).decode("latin-1").split("\r\n")
        words = first.split(" ")
        if len(words) != 3 or words[2] not in ("HTTP/1.1", "HTTP/1.0"):
            raise BadRequest("an HTTP/1 request is wanted")
        method, target, _ = words
        if not _TOKEN.fullmatch(method) or not _TARGET.fullmatch(target):
            raise BadRequest("the first line of the request is malformed")
        if len(lines) > _MAX_FIELDS:
            raise BadRequest("the request has too many fields")
        return cls(method, target, tuple(map(_field, lines)))

    def values(self, name: str) -> list[str]:
        """The values of all fields of a name."""
        return [value for key, value in self.fields if key.lower() == name]

    def connect_target(self) -> Target:
        """Where a CONNECT leads; fails with BadRequest."""
        target = _authority(self.target, None)
        if self.values("host"):
            self.check_host(target, target.port)
        return target

    def web_target(self) -> Target:
        """Where a request to a proxy leads; fails with BadRequest."""
        scheme, separator, rest = self.target.partition("://")
        if not separator or scheme.lower() != "http":
            raise BadRequest("a whole http:// address is wanted, or CONNECT")
        target = _authority(re.split(r"[/?#]", rest, maxsplit=1)[0], 80)
        self.check_host(target, 80)
        return target

    def check_host(self, target: Target, default_port: int) -> None:
        """Fails with BadRequest unless the field Host names the target."""
        if self._host(default_port) != target:
            raise OtherHost("the field Host names another host than the request")

    def _host(self, default_port: int) -> Target:
        hosts = self.values("host")
        if len(hosts) != 1:
            raise BadRequest("one field Host is wanted")
        return _authority(hosts[0], default_port)

    def own_path(self, target: Target) -> str:
        """The path of a request that the server itself gets; fails with BadRequest unless it is for
        the target."""
        if not self.target.startswith("/"):
            raise BadRequest("a path is wanted")
        self.check_host(target, 443)
        return self.target

    def origin_path(self) -> str:
        """The path of a whole address, as the server itself wants it."""
        rest = self.target.partition("://")[2].partition("#")[0]
        path = rest[len(re.split(r"[/?]", rest, maxsplit=1)[0]) :]
        return path if path.startswith("/") else "/" + path

    def for_server(self, path: str) -> "RequestHead":
        """The request as the server gets it: the only one of its connection."""
        named = ",".join(self.values("connection")).lower().split(",")
        dropped = _OF_THIS_CONNECTION | {name.strip() for name in named}
        # Without these a server would read the body differently, or serve another host.
        dropped -= {"host", "content-length", "transfer-encoding", "authorization"}
        kept = [(name, value) for name, value in self.fields if name.lower() not in dropped]
        return RequestHead(self.method, path, (*kept, ("Connection", "close")))

    def with_fields(self, fields: Iterable[tuple[str, str]]) -> "RequestHead":
        """The same request with other fields."""
        return RequestHead(self.method, self.target, tuple(fields))

    def pack(self) -> bytes:
        """The head as bytes."""
        lines = [f"{self.method} {self.target} HTTP/1.1", *(f"{k}: {v}" for k, v in self.fields)]
        return "\r\n".join(lines).encode("latin-1") + HEAD_END

    def body_length(self) -> int | None:
        """Bytes of the body; None if it comes in chunks. Fails with BadRequest."""
        lengths, codings = self.values("content-length"), self.values("transfer-encoding")
        if codings:
            if lengths or [coding.lower() for coding in codings] != ["chunked"]:
                raise BadRequest("the body's length is said in two ways, or in an unknown one")
            return None
        if not lengths:
            return 0
        if len(lengths) > 1 or not re.fullmatch(r"[0-9]{1,18}", lengths[0]):
            raise BadRequest("the body's length is malformed")
        return int(lengths[0])


def response(status: int, phrase: str, text: str) -> bytes:
    """A whole answer of the proxy itself."""
    body = f"{text}\n".encode("ascii", "replace")
    head = (
        f"HTTP/1.1 {status} {phrase}\r\nContent-Type: text/plain\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode("ascii") + body


ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"


def _field(line: str) -> tuple[str, str]:
    name, separator, value = line.partition(":")
    value = value.strip(" \t")
    if not separator or not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
        raise BadRequest("a field of the request is malformed")
    return name, value


def _authority(text: str, default_port: int | None) -> Target:
    found = _AUTHORITY.fullmatch(text)
    port = int(found["port"]) if found and found["port"] else default_port
    if found is None or port is None or not 0 < port < 65536:
        raise BadRequest(f"{text[:80]!r} is no host with a port")
    try:
        return Target.of(found["six"] or found["name"], port)
    except ValueError as error:
        raise BadRequest(str(error)) from error
