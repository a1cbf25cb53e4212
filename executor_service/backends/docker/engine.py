"""Calls to a Docker engine: through the SDK in threads, streams over asyncio.

The SDK blocks and is slow to import, so it is loaded by the first call that needs it and runs in a
small pool of threads. Streams, which last as long as a box and must not occupy a thread, use
asyncio, and so do the few cheap requests at start-up.
"""

import asyncio
import contextlib
import json
import logging
import re
import ssl
import struct
import threading
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import urlsplit

from msgspec import Struct

from executor_service.backends.docker.engine_tunnel import EngineTunnel
from executor_service.errors import BackendUnavailable, EngineRefused, LinkClosed

if TYPE_CHECKING:
    import docker

T = TypeVar("T")

log = logging.getLogger(__name__)

CALL_DEADLINE_S = 30.0
_THREADS = 8
_REMOVAL_POLL_S = 0.02
_STDOUT, _STDERR = 1, 2
_CHUNK_HEAD = struct.Struct("!BxxxI")
_MAX_STDERR_BYTES = 4096
_CLOSE_DEADLINE_S = 1.0
_START = "start Docker, or set DOCKER_HOST to its address"
_UPGRADE = ("Connection: Upgrade", "Upgrade: tcp")


class EngineAddress(Struct, frozen=True):
    """Where an engine listens and how it is trusted."""

    url: str = "unix:///var/run/docker.sock"
    """unix:// a socket on this host, tcp:// with or without TLS, ssh:// another host's engine."""
    ca_file: str = ""
    """The authority of the engine's certificate; with tcp:// this, or cert_file, turns TLS on."""
    cert_file: str = ""
    key_file: str = ""

    @property
    def is_local(self) -> bool:
        """Whether the engine sees the same files as this process."""
        return self.url.startswith("unix://")

    @property
    def uses_tls(self) -> bool:
        return self.url.startswith("tcp://") and bool(self.ca_file or self.cert_file)

    def ssl_context(self) -> ssl.SSLContext | None:
        """TLS settings for asyncio; None without TLS. Reads files."""
        if not self.uses_tls:
            return None
        context = ssl.create_default_context(cafile=self.ca_file or None)
        if self.cert_file:
            context.load_cert_chain(self.cert_file, self.key_file or None)
        return context

    def sdk(self, api_version: str) -> "docker.DockerClient":
        """A client of Docker's own package. Imports and reads files."""
        import docker
        from docker.tls import TLSConfig

        tls = None
        if self.uses_tls:
            pair = (self.cert_file, self.key_file) if self.cert_file else None
            tls = TLSConfig(client_cert=pair, ca_cert=self.ca_file or None, verify=True)
        client = docker.DockerClient(
            base_url=self.url, version=api_version, tls=tls or False, timeout=int(CALL_DEADLINE_S)
        )
        # Otherwise a proxy or authority named in the environment would override the settings.
        client.api.trust_env = False
        if self.is_local:
            # Otherwise the SDK keeps connections open for its last paths, and boxes have many.
            client.api.headers["Connection"] = "close"
        return client


class Connection(Struct, frozen=True):
    """A connection to the engine."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @classmethod
    async def open(cls, address: EngineAddress, context: ssl.SSLContext | None) -> Self:
        url = urlsplit(address.url)
        if url.scheme == "unix":
            return cls(*await asyncio.open_unix_connection(url.path))
        port = url.port or (2375 if context is None else 2376)
        return cls(*await asyncio.open_connection(url.hostname, port, ssl=context))

    async def close(self) -> None:
        """Close, after giving written bytes a moment to leave."""
        self.writer.close()
        try:
            async with asyncio.timeout(_CLOSE_DEADLINE_S):
                await self.writer.wait_closed()
        except (TimeoutError, OSError):
            self.writer.transport.abort()

    async def send(self, method: str, path: str, body: object, *headers: str) -> tuple[int, bytes]:
        """Send one request; return the status, and the body unless the connection was upgraded."""
        payload = b"" if body is None else json.dumps(body).encode()
        # An answer in HTTP/1.0 ends with the connection, never in chunks.
        version = "HTTP/1.1" if headers else "HTTP/1.0"
        head = [f"{method} {path} {version}", "Host: engine", "Content-Type: application/json"]
        head += [f"Content-Length: {len(payload)}", *headers, "", ""]
        self.writer.write("\r\n".join(head).encode() + payload)
        await self.writer.drain()
        answer = await self.reader.readuntil(b"\r\n\r\n")
        first_line = re.match(rb"HTTP/1\.\d (\d{3})", answer)
        if first_line is None:
            raise ConnectionError("the server does not speak HTTP")
        status = int(first_line[1])
        if status == HTTPStatus.SWITCHING_PROTOCOLS:
            return status, b""
        if length := re.search(rb"(?i)\r\ncontent-length: *(\d+)", answer):
            return status, await self.reader.readexactly(int(length[1]))
        return status, await self.reader.read(-1)


class ExecStream:
    """The standard streams of a command that the engine runs in a container, as a ByteStream.

    Standard error after the first standard output means that the command or what ran it has ended:
    behind gVisor the engine keeps the stream of a box that is gone.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._has_begun = False
        self._chunk_left = 0
        self._stderr = bytearray()
        self._closed = False

    async def read(self, n: int) -> bytes:
        """Return bytes of standard output; standard error is logged at the end."""
        reader = self._connection.reader
        try:
            while self._chunk_left == 0:
                await self._next_chunk(reader)
            data = await reader.read(min(n, self._chunk_left))
        except (OSError, asyncio.IncompleteReadError):
            data = b""
        self._chunk_left -= len(data)
        if not data and self._stderr:
            log.warning("a box's bridge ended: %s", self._stderr.decode(errors="replace").strip())
            self._stderr.clear()
        return data

    async def _next_chunk(self, reader: asyncio.StreamReader) -> None:
        number, size = _CHUNK_HEAD.unpack(await reader.readexactly(_CHUNK_HEAD.size))
        if number == _STDOUT:
            self._has_begun = True
            self._chunk_left = size
            return
        while size:
            data = await reader.read(min(size, 65536))
            if not data:
                raise asyncio.IncompleteReadError(data, size)
            size -= len(data)
            if number == _STDERR:
                self._stderr = (self._stderr + data)[-_MAX_STDERR_BYTES:]
        if number == _STDERR and self._has_begun:
            raise ConnectionResetError("those were its last words")

    async def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closed:
            raise LinkClosed("this end has closed the stream")
        try:
            self._connection.writer.write(data)
            await self._connection.writer.drain()
        except OSError as error:
            raise LinkClosed(f"the engine's stream broke: {error}") from error

    async def close(self) -> None:
        """End the stream and with it the command's standard input."""
        if not self._closed:
            self._closed = True
            await self._connection.close()


class Engine:
    """One Docker engine; owns the threads that its SDK runs in."""

    def __init__(self, address: EngineAddress) -> None:
        self.address = address
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="docker")
        self._sdk_lock = threading.Lock()
        self._sdk: docker.DockerClient | None = None
        self._tunnel = EngineTunnel(address.url) if address.url.startswith("ssh://") else None
        self._api_version = ""
        self._ssl_context: ssl.SSLContext | None = None

    async def call(
        self, job: Callable[["docker.DockerClient"], T], deadline_s: float = CALL_DEADLINE_S
    ) -> T:
        """Run job with the SDK in a thread; EngineRefused, or BackendUnavailable on a timeout."""
        if not self._api_version:
            # If the engine does not answer, this fails before the SDK is loaded.
            version = await self.ask("GET", "/version", deadline_s=deadline_s)
            self._api_version = str(version["ApiVersion"])
        loop = asyncio.get_running_loop()
        async with self._answering(deadline_s):
            address = await self._reachable()
            if address.is_local:
                # The SDK leaves a socket open each time that nothing listens.
                await (await self._connect()).close()
            return await loop.run_in_executor(self._pool, self._run, address, job)

    def _run(self, address: EngineAddress, job: Callable[["docker.DockerClient"], T]) -> T:
        from docker.errors import APIError, DockerException

        try:
            with self._sdk_lock:
                self._sdk = self._sdk or address.sdk(self._api_version)
            return job(self._sdk)
        except APIError as error:
            status = error.status_code or HTTPStatus.INTERNAL_SERVER_ERROR
            raise EngineRefused(status, error.explanation or str(error)) from error
        except DockerException as error:
            raise OSError(str(error)) from error

    async def ask(
        self, method: str, path: str, body: object = None, deadline_s: float = CALL_DEADLINE_S
    ) -> Any:
        """Send a cheap request without the SDK; return its JSON answer. Fails as call does."""
        async with self._answering(deadline_s):
            connection = await self._connect()
            try:
                status, answer = await connection.send(method, path, body)
            finally:
                await connection.close()
        return _accept(status, answer)

    async def remove_container(self, ident: str) -> None:
        """Kill a container, remove it and wait until it is gone; fails as call does."""
        async with self._answering(CALL_DEADLINE_S):
            while True:
                try:
                    await self.ask("DELETE", f"/containers/{ident}?force=1&v=1")
                except EngineRefused as error:
                    if error.status == HTTPStatus.NOT_FOUND:
                        return
                    # The engine is removing it at this moment.
                    if error.status != HTTPStatus.CONFLICT:
                        raise
                await asyncio.sleep(_REMOVAL_POLL_S)

    async def stream(self, path: str, body: object) -> ExecStream:
        """Start what path names and use its streams; fails as call does."""
        async with self._answering(CALL_DEADLINE_S):
            connection = await self._connect()
            try:
                status, answer = await connection.send("POST", path, body, *_UPGRADE)
                if status != HTTPStatus.SWITCHING_PROTOCOLS:
                    _accept(status, answer)
            except BaseException:
                await connection.close()
                raise
        return ExecStream(connection)

    async def _reachable(self) -> EngineAddress:
        if self._tunnel is None:
            return self.address
        return EngineAddress(f"unix://{await self._tunnel.open()}")

    async def _connect(self) -> Connection:
        if self.address.uses_tls and self._ssl_context is None:
            loop = asyncio.get_running_loop()
            self._ssl_context = await loop.run_in_executor(self._pool, self.address.ssl_context)
        return await Connection.open(await self._reachable(), self._ssl_context)

    @contextlib.asynccontextmanager
    async def _answering(self, deadline_s: float) -> AsyncGenerator[None, None]:
        """Turn timeouts and connection errors into BackendUnavailable."""
        try:
            async with asyncio.timeout(deadline_s):
                yield
        except TimeoutError as error:
            raise self._silent(f"no answer within {deadline_s:g} s") from error
        except PermissionError as error:
            raise self._silent("no permission; add this user to the group docker") from error
        except OSError as error:
            raise self._silent(f"{error.strerror or error}; {_START}") from error
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise self._silent(str(error)) from error

    def _silent(self, why: str) -> BackendUnavailable:
        return BackendUnavailable(f"no Docker engine answers at {self.address.url}: {why}")

    async def close(self) -> None:
        """Close connections and threads; a call that hangs is left to its deadline."""
        if self._sdk is not None:
            self._sdk.close()
        if self._tunnel is not None:
            await self._tunnel.close()
        self._pool.shutdown(wait=False, cancel_futures=True)


def _accept(status: int, answer: bytes) -> Any:
    try:
        content: Any = json.loads(answer) if answer[:1] in {b"{", b"["} else answer.decode()
    except ValueError as error:
        raise EngineRefused(status, "the answer cannot be read") from error
    if status >= HTTPStatus.BAD_REQUEST:
        raise EngineRefused(status, str(content.get("message", content)))
    return content
