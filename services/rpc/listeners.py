"""Listening addresses: checked to be free and safe, and reserved for the life of the process."""

import asyncio
import contextlib
import errno
import os
import socket
import stat
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import grpc
import grpc.aio

from services.errors import FailedPrecondition
from services.home.file_lock import FileLock, LockHeld
from services.rpc.addresses import Address, TcpAddress, UnixAddress
from services.rpc.tls import TlsFiles, check_files, server_credentials

_ADVICE: Mapping[int, str] = {
    errno.EADDRINUSE: "it is in use; stop the program that listens there, or choose another port",
    errno.EACCES: "no permission for this port; choose one above 1023",
    errno.EADDRNOTAVAIL: "this machine has no such address",
}


class ListenFailed(FailedPrecondition):
    """The address cannot be listened on; the message is one line that says what to do."""


@asynccontextmanager
async def reserved(address: Address) -> AsyncGenerator[None, None]:
    """Reserve a Unix socket's path, or check that a port is free; raises ListenFailed."""
    if isinstance(address, TcpAddress):
        await asyncio.to_thread(_probe, address)
        yield
        return
    lock = lock_of(address)
    await asyncio.to_thread(_reserve, address, lock)
    try:
        yield
    finally:
        await asyncio.to_thread(_free, address, lock)


def lock_of(address: UnixAddress) -> FileLock:
    """Return the lock that the process listening on an address holds."""
    return FileLock(address.path.with_name(f"{address.path.name}.lock"))


async def listen_on(server: grpc.aio.Server, address: Address, tls: TlsFiles | None) -> Address:
    """Bind a server to a reserved address; return it with the actual port."""
    if isinstance(address, UnixAddress):
        _listen_privately(server, address)
        return address
    try:
        if tls is None:
            port = server.add_insecure_port(str(address))
        else:
            credentials = await asyncio.to_thread(_checked_credentials, tls)
            port = server.add_secure_port(str(address), credentials)
    except RuntimeError as error:
        raise ListenFailed(f"cannot listen on {address}: {error}") from error
    return TcpAddress(address.host, port)


def _checked_credentials(tls: TlsFiles) -> grpc.ServerCredentials:
    # An expired certificate would only show as failing connections on the other side.
    check_files(tls, datetime.now(UTC))
    return server_credentials(tls)


def _listen_privately(server: grpc.aio.Server, address: UnixAddress) -> None:
    # A umask, not a later chmod, leaves no moment in which others can connect.
    mask = os.umask(0o177)
    try:
        server.add_insecure_port(address.target)
    except RuntimeError as error:
        raise ListenFailed(f"cannot listen on {address}: {error}") from error
    finally:
        os.umask(mask)


def _reserve(address: UnixAddress, lock: FileLock) -> None:
    # The file proves nothing: it outlives its process, and gRPC silently replaces a live socket.
    try:
        lock.acquire()
    except LockHeld as held:
        raise ListenFailed(f"{address} is in use by {held}; stop that one first") from None
    except OSError as error:
        raise ListenFailed(f"cannot listen on {address}: {error.strerror}") from error
    try:
        _remove_socket(address.path)
    except BaseException:
        lock.release()
        raise


def _free(address: UnixAddress, lock: FileLock) -> None:
    _remove_socket(address.path)
    lock.release()


def _remove_socket(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise ListenFailed(f"{path} is in the way and is not a socket; move it away")
        path.unlink()


def _probe(address: TcpAddress) -> None:
    """Explain why an address cannot be bound; gRPC writes its reasons to the terminal."""
    if address.port == 0:
        return
    try:
        family, kind, *_, place = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(place)
    except OSError as error:
        advice = _ADVICE.get(error.errno or 0, error.strerror)
        raise ListenFailed(f"cannot listen on {address}: {advice}") from error
