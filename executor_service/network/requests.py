"""HTTP/1 requests of commands, parsed by h11 and written anew.

So a request that two parsers could read differently is refused, or reaches the server in one form.
"""

import asyncio
import re
from typing import Protocol

import h11
from msgspec import Struct

from executor_service.records.network_policy import Target

_MAX_HEAD_BYTES = 64 * 1024
_READ_BYTES = 64 * 1024
_AUTHORITY = re.compile(
    r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[^:@/?#\[\]]+))(?::(?P<port>\d{1,5}))?"
)
_OF_THIS_CONNECTION = frozenset(
    (
        *("connection", "keep-alive", "proxy-authorization", "proxy-connection"),
        *("te", "trailer", "upgrade"),
    )
)
ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"


class BadRequest(ValueError):
    """A refused request; the message says why."""


class OtherHost(BadRequest):
    """The request names two hosts: one for the policy and another for the server."""


class Source(Protocol):
    """A source of bytes."""

    async def read(self, n: int) -> bytes:
        """Return 1 to n bytes; empty at the end."""
        ...


class Sink(Protocol):
    """A sink of bytes."""

    async def write(self, data: bytes) -> None: ...


class RequestHead(Struct, frozen=True):
    """The first line and the fields of a request."""

    method: str
    target: str
    fields: tuple[tuple[str, str], ...]
    """Names keep their case."""

    def values(self, name: str) -> list[str]:
        return [value for key, value in self.fields if key.lower() == name]

    def connect_target(self) -> Target:
        """The target of a CONNECT; fails with BadRequest."""
        target = _authority(self.target, None)
        if self.values("host"):
            self.check_host(target, target.port)
        return target

    def web_target(self) -> Target:
        """The target of a request to a proxy; fails with BadRequest."""
        scheme, separator, rest = self.target.partition("://")
        if not separator or scheme.lower() != "http":
            raise BadRequest("a whole http:// address is wanted, or CONNECT")
        target = _authority(re.split(r"[/?#]", rest, maxsplit=1)[0], 80)
        self.check_host(target, 80)
        return target

    def check_host(self, target: Target, default_port: int) -> None:
        """Fails with BadRequest unless the field Host names the target."""
        hosts = self.values("host")
        if len(hosts) != 1:
            raise BadRequest("one field Host is wanted")
        if _authority(hosts[0], default_port) != target:
            raise OtherHost("the field Host names another host than the request")

    def own_path(self, target: Target) -> str:
        """The path of a request to the server itself; BadRequest unless it is for the target."""
        if not self.target.startswith("/"):
            raise BadRequest("a path is wanted")
        self.check_host(target, 443)
        return self.target

    def origin_path(self) -> str:
        """The path of an absolute URL, as the server expects it."""
        rest = self.target.partition("://")[2].partition("#")[0]
        path = rest[len(re.split(r"[/?]", rest, maxsplit=1)[0]) :]
        return path if path.startswith("/") else "/" + path

    def for_server(self, path: str) -> h11.Request:
        """The request for the server, as the only one of its connection."""
        named = ",".join(self.values("connection")).lower().split(",")
        dropped = _OF_THIS_CONNECTION | {name.strip() for name in named}
        # Without these a server would read the body differently, or serve another host.
        dropped -= {"host", "content-length", "transfer-encoding", "authorization"}
        kept = [(name, value) for name, value in self.fields if name.lower() not in dropped]
        fields = [*kept, ("Connection", "close")]
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields]
        return h11.Request(method=self.method, target=path, headers=headers)


class Incoming:
    """What a command sends: one request, and the bytes after it."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_HEAD_BYTES)
        self._buffer: bytes | None = None

    async def head(self) -> RequestHead:
        """The request's head; fails with BadRequest or EOFError."""
        request = await self.event()
        if not isinstance(request, h11.Request) or request.http_version not in (b"1.1", b"1.0"):
            raise BadRequest("an HTTP/1 request is wanted")
        fields = [
            (name.decode("latin-1"), value.decode("latin-1"))
            for name, value in request.headers.raw_items()
        ]
        head = RequestHead(request.method.decode(), request.target.decode(), tuple(fields))
        if head.values("content-length") and head.values("transfer-encoding"):
            raise BadRequest("the body's length is said in two ways")
        return head

    async def event(self) -> object:
        """The next event of the request; fails with BadRequest or EOFError."""
        while True:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                raise BadRequest(f"the request is malformed: {error}") from error
            if event is not h11.NEED_DATA:
                return event
            self._http.receive_data(await self._more())

    async def read(self, n: int) -> bytes:
        """Return 1 to n bytes from after the request; empty at the end."""
        data = self.buffered
        if not data:
            return await self._source.read(n)
        self._buffer = data[n:]
        return data[:n]

    @property
    def buffered(self) -> bytes:
        """The bytes received after the request and not read yet."""
        if self._buffer is None:
            self._buffer = self._http.trailing_data[0]
        return self._buffer

    async def more(self) -> None:
        """Wait until `buffered` has more; fails with EOFError."""
        self._buffer = self.buffered + await self._more()

    async def _more(self) -> bytes:
        data = await self._source.read(_READ_BYTES)
        if not data:
            raise EOFError
        return data


async def send_request(head: h11.Request, source: Incoming, sink: Sink) -> None:
    """Pass on one request; BadRequest if another follows, which would get no answer."""
    server = h11.Connection(h11.CLIENT)
    await sink.write(server.send(head) or b"")
    while isinstance(part := await source.event(), h11.Data):
        await sink.write(server.send(h11.Data(part.data)) or b"")
        # Reading from the buffer does not yield, so give other tasks a turn.
        await asyncio.sleep(0)
    if end := server.send(h11.EndOfMessage()):
        await sink.write(end)
    if await source.read(1):
        raise BadRequest("only one request is taken")


def response(status: int, phrase: str, text: str) -> bytes:
    """Build a whole answer of the proxy itself."""
    body = f"{text}\n".encode("ascii", "replace")
    head = (
        f"HTTP/1.1 {status} {phrase}\r\nContent-Type: text/plain\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode("ascii") + body


def _authority(text: str, default_port: int | None) -> Target:
    found = _AUTHORITY.fullmatch(text)
    port = int(found["port"]) if found and found["port"] else default_port
    if found is None or port is None or not 0 < port < 65536:
        raise BadRequest(f"{text[:80]!r} is no host with a port")
    try:
        return Target.parse(found["six"] or found["name"], port)
    except ValueError as error:
        raise BadRequest(str(error)) from error
