"""Connections to hosts: resolve the name, check its addresses, connect to one that passed."""

import asyncio
import contextlib
import logging
import socket
import ssl
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from ipaddress import ip_address

from msgspec import Struct

from executor_service.errors import EgressRefused
from executor_service.records.network_policy import Target
from services.rpc.public_addresses import Address, AddressVetting, address_of

Resolve = Callable[[str], Awaitable[Sequence[Address]]]
"""Returns the addresses of a name, none if it does not exist; may take arbitrarily long."""
LookUp = Callable[[str], Sequence[Address]]
"""The same, but blocks."""

_BUFFER_BYTES = 64 * 1024

_log = logging.getLogger(__name__)


class Deadlines(Struct, frozen=True):
    """How long each step of a connection may take, in seconds."""

    request_s: float = 10.0
    """Until a command has named its target."""
    resolve_s: float = 5.0
    connect_s: float = 10.0
    idle_s: float = 300.0
    """Without a byte in either direction."""


class Upstream:
    """A connection to an outside host: a source and a sink of bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self, n: int) -> bytes:
        return await self._reader.read(n)

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    def end(self) -> None:
        if self._writer.can_write_eof():
            with contextlib.suppress(OSError):
                self._writer.write_eof()

    def close(self) -> None:
        self._writer.transport.abort()


class Resolver:
    """Asks the machine's resolver, with a thread for each lookup.

    Lookups cannot be stopped and may take long, so a few sandboxes could occupy a thread pool.
    Instead, each sandbox has a limit of its own.
    """

    def __init__(self, look_up: LookUp | None = None) -> None:
        self._look_up = look_up or _look_up

    async def __call__(self, host: str) -> Sequence[Address]:
        loop = asyncio.get_running_loop()
        found: asyncio.Future[Sequence[Address]] = loop.create_future()

        def look_up() -> None:
            addresses = self._look_up(host)
            # The loop may have ended meanwhile.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(_settle, found, addresses)

        try:
            # A daemon, so that the process does not wait for it.
            threading.Thread(target=look_up, name="resolve", daemon=True).start()
        except RuntimeError:
            _log.warning("names cannot be resolved: this process cannot start more threads")
            return ()
        return await found


class Gate:
    """Connects to the hosts that sandboxes may reach."""

    def __init__(
        self,
        vetting: AddressVetting,
        resolve: Resolve,
        deadlines: Deadlines | None = None,
        trust: ssl.SSLContext | None = None,
    ) -> None:
        """`trust` holds the certificate authorities for TLS connections of the executor itself."""
        self._trust = trust
        self.deadlines = deadlines or Deadlines()
        self._vetting = vetting
        self._resolve = resolve

    @asynccontextmanager
    async def connect(
        self, target: Target, turn: asyncio.Semaphore, *, by_tls: bool = False
    ) -> AsyncGenerator[Upstream]:
        """Connects for the time of the block; with `by_tls`, to a verified host.

        A slot of `turn` is taken during the lookup. Fails with EgressRefused.
        """
        if by_tls and self._trust is None:
            raise EgressRefused(
                "untrusted", f"no certificate authority is configured to verify {target}"
            )
        addresses = [
            one for one in await self._addresses(target, turn) if self._vetting.allows(one)
        ]
        if not addresses:
            raise EgressRefused("address_refused", f"{target} has no public address")
        upstream = await self._open(target, addresses, self._trust if by_tls else None)
        try:
            yield upstream
        finally:
            upstream.close()

    async def _addresses(self, target: Target, turn: asyncio.Semaphore) -> Sequence[Address]:
        address = address_of(target.host)
        if address is not None:
            return [address]
        try:
            async with asyncio.timeout(self.deadlines.resolve_s):
                await turn.acquire()
                # A lookup cannot be stopped, so its slot is free when it ends, not when we stop.
                lookup = asyncio.ensure_future(self._resolve(target.host))
                lookup.add_done_callback(lambda _: turn.release())
                found = await asyncio.shield(lookup)
        except TimeoutError:
            found = ()
        if not found:
            raise EgressRefused("unresolved", f"the name {target.host} cannot be resolved")
        return found

    async def _open(
        self, target: Target, addresses: Sequence[Address], tls: ssl.SSLContext | None
    ) -> Upstream:
        """Connects to the first address that answers; the name is not resolved again."""
        give_up_at = asyncio.get_running_loop().time() + self.deadlines.connect_s
        for number, address in enumerate(addresses):
            rest_s = give_up_at - asyncio.get_running_loop().time()
            try:
                async with asyncio.timeout(rest_s / (len(addresses) - number)):
                    streams = await asyncio.open_connection(
                        *(str(address), target.port),
                        limit=_BUFFER_BYTES,
                        ssl=tls,
                        server_hostname=target.host if tls else None,
                    )
                    return Upstream(*streams)
            except ssl.SSLCertVerificationError as error:
                problem = f"the certificate of {target} is not valid: {error.verify_message}"
                raise EgressRefused("untrusted", problem) from error
            except (OSError, TimeoutError):
                continue
        raise EgressRefused("unreachable", f"{target} cannot be reached")


def _settle(found: "asyncio.Future[Sequence[Address]]", addresses: Sequence[Address]) -> None:
    if not found.done():
        found.set_result(addresses)


def _look_up(host: str) -> Sequence[Address]:
    try:
        # A dot at the end keeps the resolver's search list away from the name.
        found = socket.getaddrinfo(f"{host}.", None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return ()
    return [ip_address(address[4][0]) for address in found]
