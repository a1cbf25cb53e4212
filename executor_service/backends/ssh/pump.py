"""Bytes between the channels of one SSH connection and sockets that asyncio can wait for.

The SDK's channels block, also where they do not say so: what is sent waits for a new exchange of
keys and for the network, and what is received may send a larger window. So one thread for each
connection moves the bytes of all its channels, and whoever reads or writes a stream only has a
socket of this machine before him. Its buffer is small: a slow reader slows the channel down, whose
window then stays shut, and a slow box the writer.

That something has come is heard from the channel's buffer, not from its file descriptor: the
SDK's thread writes to that one while `close` closes it, and then ends the connection with all its
channels, or writes into whatever has the descriptor's number by then.
"""

import logging
import os
import queue
import selectors
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paramiko import Channel

_READ_BYTES = 128 * 1024
_WINDOW_LOOK_S = 0.005
"""The SDK tells nobody that a channel's window has opened."""

log = logging.getLogger(__name__)


class Pump:
    """The thread of one connection; everything but its life happens in that thread."""

    def __init__(self) -> None:
        import paramiko

        self._breaks = (OSError, EOFError, paramiko.SSHException)
        self._selector = selectors.DefaultSelector()
        self._wake_reader, self._wake_writer = os.pipe()
        os.set_blocking(self._wake_reader, False)
        os.set_blocking(self._wake_writer, False)
        self._jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._joints: set[_Joint] = set()
        self._calling = threading.Lock()
        self._closed = False
        self._ends = False
        self._thread = threading.Thread(target=self._run, name="ssh-pump", daemon=True)
        self._thread.start()

    def join(self, channel: "Channel") -> socket.socket:
        """The near end of a socket whose other end is the channel; closing it closes both."""
        near, far = socket.socketpair()

        def add() -> None:
            arrival = _Arrival(self._something_came)
            self._joints.add(_Joint(self._selector, channel, far, arrival, self._breaks))

        with self._calling:
            if not self._closed:
                self._call(add)
                return near
        for end in (near, far, channel):
            end.close()
        raise ConnectionError("the connection was closed")

    def close(self) -> None:
        """End all streams and the thread; safe to call twice."""

        def end() -> None:
            self._ends = True

        with self._calling:
            if not self._closed:
                self._closed = True
                self._call(end)

    def _call(self, job: Callable[[], None]) -> None:
        """Have the thread do it; it takes nothing more once it is closed."""
        self._jobs.put(job)
        self._wake()

    def _wake(self) -> None:
        with suppress(BlockingIOError):  # it is awake
            os.write(self._wake_writer, b"1")

    def _something_came(self) -> None:
        """Heard in the SDK's thread, of a channel that may be closed meanwhile."""
        with self._calling:
            if not self._closed:
                self._wake()

    def _run(self) -> None:
        self._selector.register(self._wake_reader, selectors.EVENT_READ, self._woken)
        while not self._ends:
            held_up = [joint for joint in self._joints if joint.waits_for_window]
            has_more = any(joint.can_read for joint in self._joints)
            wait_s = 0 if has_more else _WINDOW_LOOK_S if held_up else None
            for key, _ in self._selector.select(wait_s):
                key.data()
            for joint in self._joints:
                joint.from_channel()
            for joint in held_up:
                joint.to_channel()
            self._joints = {joint for joint in self._joints if not joint.closed}
        for joint in self._joints:
            joint.close()
        self._selector.close()
        os.close(self._wake_reader)
        os.close(self._wake_writer)

    def _woken(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._wake_reader, 4096)
        with suppress(queue.Empty):
            while True:
                self._jobs.get_nowait()()


class _Arrival(threading.Event):
    """A channel's buffer holds something, or has ended; said by the buffer under its lock."""

    def __init__(self, heard: Callable[[], None]) -> None:
        super().__init__()
        self._heard = heard

    def set(self) -> None:
        """Something has come."""
        if not self.is_set():
            super().set()
            self._heard()


class _Joint:
    """One channel and the far end of its socket, with what was taken and not yet given."""

    def __init__(
        self,
        selector: selectors.BaseSelector,
        channel: "Channel",
        far: socket.socket,
        arrival: _Arrival,
        breaks: tuple[type[Exception], ...],
    ) -> None:
        self.closed = False
        self.waits_for_window = False
        self._selector = selector
        self._channel = channel
        self._far = far
        self._breaks = breaks
        self._outgoing = b""
        self._incoming = b""
        self._arrival = arrival
        channel.settimeout(0)
        channel.in_buffer.set_event(arrival)
        far.setblocking(False)
        selector.register(far, selectors.EVENT_READ, self._from_socket)

    @property
    def can_read(self) -> bool:
        """Whether the channel has something for which there is room."""
        return self._arrival.is_set() and not self._incoming and not self.closed

    def from_channel(self) -> None:
        """Hand on some of what has come."""
        if not self.can_read:
            return
        try:
            self._incoming = self._channel.recv(_READ_BYTES)
        except TimeoutError:
            return
        except self._breaks as error:
            log.debug("an ssh channel broke: %s", error)
            self._incoming = b""
        if self._incoming:
            self._to_socket()
        else:
            self.close()

    def _to_socket(self) -> None:
        try:
            self._incoming = self._incoming[self._far.send(self._incoming) :]
        except BlockingIOError:
            pass
        except OSError:
            self.close()
            return
        self._watch_socket()

    def _from_socket(self) -> None:
        if self.closed:
            return
        if self._incoming:
            self._to_socket()
        if self._outgoing or self.closed:
            return
        try:
            self._outgoing = self._far.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            self._outgoing = b""
        if self._outgoing:
            self.to_channel()
        else:
            self.close()

    def to_channel(self) -> None:
        """Send what waits, as far as the channel's window goes."""
        if self.closed:
            return
        was_held_up = self.waits_for_window
        try:
            while self._outgoing:
                sent = self._channel.send(self._outgoing)
                if not sent:
                    raise ConnectionError("the other side takes nothing more")
                self._outgoing = self._outgoing[sent:]
            self.waits_for_window = False
        except TimeoutError:
            self.waits_for_window = True
        except self._breaks as error:
            log.debug("an ssh channel broke: %s", error)
            self.close()
            return
        if was_held_up != self.waits_for_window:
            self._watch_socket()

    def _watch_socket(self) -> None:
        """Wait for what can go on: more to send unless some waits, room for what has come."""
        events = 0 if self.waits_for_window else selectors.EVENT_READ
        if self._incoming:
            events |= selectors.EVENT_WRITE
        watched = self._far in self._selector.get_map()
        if events and watched:
            self._selector.modify(self._far, events, self._from_socket)
        elif events:
            self._selector.register(self._far, events, self._from_socket)
        elif watched:
            self._selector.unregister(self._far)

    def close(self) -> None:
        """Close both ends."""
        if self.closed:
            return
        self.closed = True
        self.waits_for_window = False
        with suppress(KeyError):
            self._selector.unregister(self._far)
        self._far.close()
        with suppress(*self._breaks):
            self._channel.close()
