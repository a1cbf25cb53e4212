"""Places to listen on: each is free, ours alone while the process lives, and safe to listen on."""

import contextlib
import errno
import fcntl
import os
import socket
import stat
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

import grpc.aio

from services.addresses import Address, TcpAddress, UnixAddress
from services.errors import FailedPrecondition
from services.tls import TlsFiles, server_credentials

_ADVICE: Mapping[int, str] = {
    errno.EADDRINUSE: "it is in use; stop the program that listens there, or choose another port",
    errno.EACCES: "no permission for this port; choose one above 1023",
    errno.EADDRNOTAVAIL: "this machine has no such address",
}


class ListenFailed(FailedPrecondition):
    """The address cannot be listened on; the message is one line that says what to do."""


@contextmanager
def reserved(address: Address) -> Generator[None, None, None]:
    """Keeps a Unix socket's path for this process alone; fails with ListenFailed."""
    if isinstance(address, TcpAddress):
        yield
        return
    # The kernel drops the lock with the process, however that ends. A socket file says nothing:
    # it outlives its process, and gRPC replaces a living one without a word.
    descriptor = _open_lock(address.path)
    try:
        _lock(descriptor, address)
        _remove_socket(address.path)
        yield
        _remove_socket(address.path)
    finally:
        os.close(descriptor)


def bind(server: grpc.aio.Server, address: Address, tls: TlsFiles | None) -> Address:
    """Binds a server to a reserved address, with the port that was chosen when it was 0."""
    if isinstance(address, UnixAddress):
        _listen_privately(server, address)
        return address
    _probe(address)
    try:
        if tls is None:
            port = server.add_insecure_port(str(address))
        else:
            port = server.add_secure_port(str(address), server_credentials(tls))
    except RuntimeError as error:
        raise ListenFailed(f"cannot listen on {address}: {error}") from error
    return TcpAddress(address.host, port)


def _listen_privately(server: grpc.aio.Server, address: UnixAddress) -> None:
    # The mask instead of a later chmod: there is no moment in which others can connect.
    mask = os.umask(0o177)
    try:
        server.add_insecure_port(address.target)
    except RuntimeError as error:
        raise ListenFailed(f"cannot listen on {address}: {error}") from error
    finally:
        os.umask(mask)


def _open_lock(path: Path) -> int:
    try:
        return os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise ListenFailed(f"cannot listen on unix:{path}: {error.strerror}") from error


def _lock(descriptor: int, address: UnixAddress) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.pread(descriptor, 20, 0).decode(errors="replace").strip() or "unknown"
        raise ListenFailed(f"{address} is in use by process {owner}; stop that one first") from None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)


def _remove_socket(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise ListenFailed(f"{path} is in the way and is not a socket; move it away")
        path.unlink()


def _probe(address: TcpAddress) -> None:
    """Says in words why an address cannot be bound; gRPC writes its reasons to the terminal."""
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
