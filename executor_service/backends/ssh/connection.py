"""One connection to an SSH server with a known key. All methods block.

The SDK is slow to import, so the first call loads it. Its channels block even where they do not say
so, for a key exchange or the network. So each stream has two threads, which move its bytes to and
from a local socket for asyncio. Its small buffer makes a slow reader slow the channel down.
"""

import base64
import contextlib
import hashlib
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct

from executor_service.config import SshConfig
from executor_service.errors import BackendUnavailable

if TYPE_CHECKING:
    from paramiko import Channel, PKey, SSHClient, Transport

_CONNECT_DEADLINE_S = 8.0
_SESSION_DEADLINE_S = 8.0
_KEEPALIVE_S = 15
_SILENCE_MS = 20_000
"""How long sent bytes may stay unconfirmed until the connection counts as broken."""
_READ_BYTES = 64 * 1024
_STREAM_BYTES = 128 * 1024
_MAX_ANSWER_BYTES = 4 * 1024 * 1024


class Answer(Struct, frozen=True):
    """A command's output until its end."""

    status: int
    """-1 if unknown."""
    stdout: bytes
    stderr: bytes


class SessionRefused(Exception):
    """The server allows no further session on this connection."""


class Connection:
    """One transport."""

    def __init__(self, client: "SSHClient", transport: "Transport") -> None:
        self._client = client
        self._transport = transport

    @classmethod
    def open(cls, options: SshConfig) -> Self:
        """Connect and authenticate both sides; fails with BackendUnavailable."""
        import paramiko

        client = paramiko.SSHClient()
        try:
            transport = _connect(client, options)
        except BaseException:
            client.close()
            raise
        return cls(client, transport)

    @property
    def lives(self) -> bool:
        """Whether it can still be used, as far as is known."""
        return self._transport.is_active()

    def run(self, command: str, sent: bytes, deadline_s: float) -> Answer:
        """Run a command to its end; SessionRefused or OSError."""
        give_up_at = time.monotonic() + deadline_s
        with contextlib.closing(self._session(command)) as channel:
            channel.settimeout(deadline_s)
            # A command that does not read its input still has an answer.
            with contextlib.suppress(OSError):
                channel.sendall(sent)
            channel.shutdown_write()
            stdout = _read_all(channel.recv, channel, give_up_at)
            stderr = _read_all(channel.recv_stderr, channel, give_up_at)
            status = -1
            if channel.status_event.wait(max(0.0, give_up_at - time.monotonic())):
                status = channel.exit_status
            return Answer(status, stdout, stderr)

    def stream(self, command: str) -> socket.socket:
        """Run a command and return a socket for its streams; SessionRefused or OSError."""
        channel = self._session(command)
        near, far = socket.socketpair()
        threading.Thread(target=_join, args=(channel, far), name="ssh stream", daemon=True).start()
        return near

    def _session(self, command: str) -> "Channel":
        import paramiko

        try:
            channel = self._transport.open_session(timeout=_SESSION_DEADLINE_S)
        except paramiko.ChannelException as error:
            raise SessionRefused(str(error)) from error
        except (paramiko.SSHException, EOFError, OSError) as error:
            # A connection that cannot start a session is of no more use.
            self.close()
            raise ConnectionError(f"the connection broke: {error}") from error
        try:
            channel.exec_command(command)
        except (paramiko.SSHException, EOFError, OSError) as error:
            channel.close()
            raise ConnectionError(f"the server runs no command: {error}") from error
        return channel

    def close(self) -> None:
        self._client.close()


def _join(channel: "Channel", far: socket.socket) -> None:
    """Move bytes both ways until either side ends, then close both."""
    import paramiko

    breaks = (OSError, EOFError, paramiko.SSHException)

    def end() -> None:
        # Wakes the other thread, wherever it waits.
        with contextlib.suppress(OSError):
            far.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(*breaks):
            channel.close()

    def send() -> None:
        with contextlib.suppress(*breaks):
            while data := far.recv(_STREAM_BYTES):
                while data and (sent := channel.send(data)):
                    data = data[sent:]
                if data:
                    break  # the other side reads no more
        end()

    with far:
        sending = threading.Thread(target=send, name="ssh stream input", daemon=True)
        sending.start()
        with contextlib.suppress(*breaks):
            while data := channel.recv(_STREAM_BYTES):
                far.sendall(data)
        end()
        sending.join()


def _read_all(receive: Callable[[int], bytes], channel: "Channel", give_up_at: float) -> bytes:
    found = bytearray()
    while len(found) <= _MAX_ANSWER_BYTES:
        channel.settimeout(max(0.01, give_up_at - time.monotonic()))
        data = receive(_READ_BYTES)
        if not data:
            return bytes(found)
        found += data
    raise ConnectionError("the answer is too long")


def _connect(client: "SSHClient", options: SshConfig) -> "Transport":
    import paramiko

    key_file = _expanded(options.key)
    if key_file and not Path(key_file).is_file():
        raise BackendUnavailable(f"executor.ssh.key: there is no file {key_file}")
    try:
        _pin(client, options)
        client.connect(
            options.host,
            options.port,
            username=options.user or None,
            key_filename=key_file or None,
            allow_agent=not options.key,
            look_for_keys=not options.key,
            timeout=_CONNECT_DEADLINE_S,
            banner_timeout=_CONNECT_DEADLINE_S,
            auth_timeout=_CONNECT_DEADLINE_S,
            sock=_socket(options),
        )
    except paramiko.BadHostKeyException as error:
        raise BackendUnavailable(
            f"the host key of {options.name} is not the one in {options.known_hosts}: it shows "
            f"{_sha256(error.key)}; if its owner confirms the change, correct the line of "
            f"{options.known_name}, else somebody may be in between"
        ) from error
    except paramiko.PasswordRequiredException as error:
        raise BackendUnavailable(
            f"the key {options.key or 'of this user'} needs a passphrase: load it into an "
            "agent and leave executor.ssh.key out, or use a key without"
        ) from error
    except (paramiko.SSHException, EOFError) as error:
        raise BackendUnavailable(_why_refused(options, error)) from error
    except OSError as error:
        raise BackendUnavailable(
            f"no SSH server answers at {options.name}: {error.strerror or error}"
        ) from error
    transport = client.get_transport()
    if transport is None:
        raise BackendUnavailable(f"the connection to {options.name} broke at once")
    transport.set_keepalive(_KEEPALIVE_S)
    return transport


def _socket(options: SshConfig) -> socket.socket:
    sock = socket.create_connection((options.host, options.port), _CONNECT_DEADLINE_S)
    # Small frames go back and forth, and waiting to fill packets doubles the time of each.
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _SILENCE_MS)
    return sock


def _pin(client: "SSHClient", options: SshConfig) -> None:
    """Trust only the configured key."""
    policy: Any = _Fingerprint(options) if options.fingerprint else _Unknown(options)
    client.set_missing_host_key_policy(policy)
    if options.fingerprint:
        return
    known_hosts = Path(_expanded(options.known_hosts))
    if not known_hosts.is_file():
        raise BackendUnavailable(
            f"there is no {known_hosts} to know {options.name} by: make it with `ssh-keyscan`, "
            "compare the key with its owner's, or set executor.ssh.fingerprint"
        )
    client.load_host_keys(str(known_hosts))


class _Unknown:
    """Refuses every machine that is not in known_hosts."""

    def __init__(self, options: SshConfig) -> None:
        self._options = options

    def missing_host_key(self, _client: "SSHClient", _hostname: str, key: "PKey") -> None:
        options = self._options
        raise BackendUnavailable(
            f"{options.name} is not in {options.known_hosts}: it shows {_sha256(key)}; if that is "
            f"its key, add it with `ssh-keyscan -p {options.port} {options.host}`, or set "
            "executor.ssh.fingerprint"
        )


class _Fingerprint(_Unknown):
    def missing_host_key(self, _client: "SSHClient", _hostname: str, key: "PKey") -> None:
        if _fingerprint(key) != self._options.fingerprint.rstrip("="):
            raise BackendUnavailable(
                f"{self._options.name} shows {_sha256(key)}, and executor.ssh.fingerprint is "
                f"{self._options.fingerprint}; if its owner confirms the key, correct that, else "
                "somebody may be in between"
            )


def _fingerprint(key: "PKey") -> str:
    digest = hashlib.sha256(key.asbytes()).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def _sha256(key: "PKey") -> str:
    return f"the key {key.get_name()} {_fingerprint(key)}"


def _why_refused(options: SshConfig, error: Exception) -> str:
    import paramiko

    if isinstance(error, paramiko.AuthenticationException):
        key = options.key or "the agent's and the user's usual keys"
        return (
            f"{options.name} does not let {options.user or 'this user'} in with {key} "
            f"({error}): add the public key to ~/.ssh/authorized_keys there"
        )
    return f"no SSH connection to {options.name}: {error or 'it was closed'}"


def _expanded(path: str) -> str:
    return str(Path(path).expanduser()) if path else ""
