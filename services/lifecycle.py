"""The tasks of a process, and its shutdown."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import Context
from typing import Any, Self, TypeVar, cast

from msgspec import Struct

from services.errors import Draining, HermesError, Unavailable

_log = logging.getLogger(__name__)

_T = TypeVar("_T")
_STUCK_AFTER_S = 5.0
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_SWITCH_INTERVAL_S = 0.0002


def share_interpreter() -> None:
    """Shorten the thread switch interval; by default, database threads waited up to 7 s."""
    sys.setswitchinterval(_SWITCH_INTERVAL_S)


async def result_or_error(work: Awaitable[_T]) -> _T | Exception:
    """Return a result, or an error that is not ours to be logged; raises HermesError."""
    try:
        return await work
    except HermesError:
        raise
    except Exception as error:  # noqa: BLE001 - handed on, to be logged
        return error


class Failure(Struct, frozen=True):
    """A worker that failed."""

    name: str
    error: BaseException


class Workers:
    """A group of tasks in which a failure is logged and does not end the others."""

    def __init__(self, on_failure: Callable[[Failure], None] | None = None) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._on_failure = on_failure
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._closed = True
        for task in self._tasks:
            task.cancel()
        await self._outlive_all()

    def __len__(self) -> int:
        return len(self._tasks)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(task.get_name() for task in self._tasks))

    def start(
        self, name: str, coro: Coroutine[Any, Any, _T], context: Context | None = None
    ) -> asyncio.Task[_T]:
        """Run `coro` as a worker in `context` or the caller's; raises Draining after `drain`."""
        if self._closed:
            coro.close()
            raise Draining(f"{name} cannot start, as this service is shutting down")
        task = asyncio.create_task(coro, name=name, context=context)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    async def drain(self, timeout_s: float) -> tuple[str, ...]:
        """Start no more workers, wait for the running ones, and return the names of the rest."""
        self._closed = True
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_s)
        return self.names

    def _finished(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        failure = Failure(task.get_name(), error)
        if isinstance(error, Unavailable):
            # No traceback: it would not say why the other service is away.
            _log.warning("worker %s failed: %s", failure.name, error)
        else:
            _log.error("worker %s failed", failure.name, exc_info=error)
        if self._on_failure is not None:
            self._on_failure(failure)

    async def _outlive_all(self) -> None:
        """Wait until no worker runs; raise a cancellation only then."""
        cancelled: asyncio.CancelledError | None = None
        while self._tasks:
            try:
                _, running = await asyncio.wait(self._tasks, timeout=_STUCK_AFTER_S)
            except asyncio.CancelledError as error:
                cancelled = error
                continue
            if running:
                _log.warning("still waiting for %s to end", ", ".join(self.names))
        if cancelled is not None:
            raise cancelled


async def unbroken(coro: Coroutine[Any, Any, _T]) -> _T:
    """Run `coro` to its end even if the caller is cancelled, and raise that only then."""
    task = asyncio.create_task(coro)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        task.result()
        raise


class Shutdown:
    """Stops the process: in order on the first SIGTERM, SIGINT or SIGHUP, at once on the second.

    A signal that was ignored when the process started, as under nohup, stays ignored.
    """

    def __init__(self, grace_s: float = 30.0) -> None:
        self._grace_s = grace_s
        self._requested = asyncio.Event()
        self._reason = ""
        self._handled: list[signal.Signals] = []

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._handled = [n for n in _SIGNALS if signal.getsignal(n) is not signal.SIG_IGN]
        for number in self._handled:
            loop.add_signal_handler(number, self._signalled, number)
        return self

    async def __aexit__(self, *_: object) -> None:
        loop = asyncio.get_running_loop()
        for number in self._handled:
            loop.remove_signal_handler(number)

    @property
    def is_requested(self) -> bool:
        return self._requested.is_set()

    def request(self, reason: str) -> None:
        """Request a stop, as the first signal does."""
        if not self._requested.is_set():
            self._reason = reason
            self._requested.set()

    async def wait(self) -> str:
        await self._requested.wait()
        return self._reason

    async def drain(self, steps: Mapping[str, Callable[[], Awaitable[object]]]) -> None:
        """Run the steps in order, all within the grace period; failures are logged."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._grace_s
        for name, run in steps.items():
            task = asyncio.ensure_future(run())
            try:
                _, late = await asyncio.wait({task}, timeout=max(0.0, deadline - loop.time()))
            finally:
                task.cancel()
            if late:
                _log.error("%s was not drained within %.0f s", name, self._grace_s)
            elif (error := task.exception()) is not None:
                _log.error("%s failed to drain", name, exc_info=error)

    def _signalled(self, number: signal.Signals) -> None:
        if self._requested.is_set():
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        _log.info("stopping on %s; send it again to stop at once", number.name)
        self.request(number.name)


async def all_of(calls: Iterable[Coroutine[Any, Any, _T]]) -> list[_T]:
    """Run calls concurrently and return their results; the first failure cancels the others."""
    with ungrouped():
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(call) for call in calls]
    return [task.result() for task in tasks]


async def each_of(calls: Iterable[Coroutine[Any, Any, object]]) -> None:
    """Run all calls concurrently to their ends; raise the first failure by order, log others."""
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    failed = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    for other in failed[1:]:
        _log.warning("a concurrent call failed, too", exc_info=other)
    if failed:
        raise failed[0]


@contextmanager
def ungrouped() -> Generator[None]:
    """Raise the first failure of a task group inside instead of its exception group."""
    try:
        yield
    except BaseExceptionGroup as failed:
        first = first_failure(failed)
        raise first from first.__cause__


def first_failure(error: BaseException) -> BaseException:
    """Return the first failure in an exception group, or the error itself."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    group = cast("BaseExceptionGroup[BaseException]", error)
    return first_failure(group.exceptions[0])
