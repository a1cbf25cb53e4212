"""The supervisor's single thread: ready file descriptors, timers and ended children."""

from __future__ import annotations

import heapq
import os
import select
import time

from executor_service.supervisor.light import signal, suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

READABLE = select.EPOLLIN
WRITABLE = select.EPOLLOUT
_LONGEST_WAIT_S = 3600.0
"""epoll cannot wait longer than some weeks."""


class Timer:
    """A scheduled call that can be cancelled."""

    __slots__ = ("call", "cancelled")

    def __init__(self, call: Callable[[], None]) -> None:
        self.call = call
        self.cancelled = False

    def cancel(self) -> None:
        """Prevent the call and release what it holds."""
        self.cancelled = True
        self.call = _nothing


def _nothing() -> None:
    pass


class Loop:
    """Calls handlers when descriptors are ready, timers are due or children have ended.

    Descriptors are level-triggered, and handlers must never block. A handler may be called once
    without cause after a descriptor's number was reused.
    """

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._handlers: dict[int, Callable[[int], None]] = {}
        self._timers: list[tuple[float, int, Timer]] = []
        self._timer_count = 0
        self._running = False

    def watch(self, fd: int, events: int, handler: Callable[[int], None]) -> None:
        """Call handler(events) whenever fd is ready, until unwatch."""
        if fd in self._handlers:
            self._epoll.modify(fd, events)
        else:
            self._epoll.register(fd, events)
        self._handlers[fd] = handler

    def unwatch(self, fd: int) -> None:
        """Stop watching fd; call this before closing it."""
        if self._handlers.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def after(self, delay_s: float, call: Callable[[], None]) -> Timer:
        timer = Timer(call)
        self._timer_count += 1
        heapq.heappush(self._timers, (time.monotonic() + delay_s, self._timer_count, timer))
        return timer

    def on_children(self, reap: Callable[[], None]) -> None:
        wake_reader, wake_writer = os.pipe()
        os.set_blocking(wake_reader, False)
        os.set_blocking(wake_writer, False)

        def woken(_events: int) -> None:
            with suppress(BlockingIOError):
                os.read(wake_reader, 4096)
            reap()

        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.set_wakeup_fd(wake_writer, warn_on_full_buffer=False)
        self.watch(wake_reader, READABLE, woken)

    def stop(self) -> None:
        """Return from run after the current handler."""
        self._running = False

    def run(self) -> None:
        self._running = True
        while self._running:
            for fd, events in self._epoll.poll(self._next_timeout_s()):
                handler = self._handlers.get(fd)
                if handler is not None:
                    handler(events)
            self._run_timers()

    def _next_timeout_s(self) -> float:
        while self._timers and self._timers[0][2].cancelled:
            heapq.heappop(self._timers)
        if not self._timers:
            return -1
        return min(_LONGEST_WAIT_S, max(0.0, self._timers[0][0] - time.monotonic()))

    def _run_timers(self) -> None:
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            timer = heapq.heappop(self._timers)[2]
            if not timer.cancelled:
                timer.call()
