"""A thread that runs what waits in a queue and gives the outcomes to the event loop."""

import asyncio
import logging
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import sqlalchemy as sa

from services.errors import HermesError

_log = logging.getLogger(__name__)

_T = TypeVar("_T")


class Job:
    """One function to run in a transaction, and who waits for its outcome."""

    __slots__ = ("error", "fn", "future", "notify", "value")

    def __init__(
        self,
        fn: Callable[[sa.Connection], Any],
        future: asyncio.Future[Any],
        notify: str | None = None,
    ) -> None:
        self.fn = fn
        self.future = future
        self.notify = notify
        self.value: Any = None
        self.error: BaseException | None = None

    def run(self, connection: sa.Connection) -> None:
        """Call the function and keep what it returns or raises."""
        self.value, self.error = _attempt(self.fn, connection)

    def settle(self) -> None:
        """Give the outcome to the caller, on the event loop; log what nobody waits for."""
        if self.future.done():
            if self.error is not None:
                log_failure(self.error)
        elif self.error is None:
            self.future.set_result(self.value)
        else:
            self.future.set_exception(self.error)


class Worker(Protocol):
    """What a lane's thread does; all of it is called in that thread."""

    def run(self, jobs: Sequence[Job]) -> None:
        """Run the jobs; an exception is the outcome of those that have no error of their own."""
        ...

    def explain(self, error: BaseException) -> BaseException:
        """Return the error as the caller shall see it."""
        ...

    def close(self) -> None:
        """Let go of what the worker holds; the next job opens it again."""
        ...


class Lane:
    """One worker in a thread of its own; several lanes may share a queue."""

    def __init__(
        self,
        name: str,
        worker: Worker,
        jobs: "queue.SimpleQueue[Job | None]",
        settle: Callable[[Sequence[Job]], None],
        at_once: int = 1,
    ) -> None:
        self._worker = worker
        self._jobs = jobs
        self._settle = settle
        self._at_once = at_once
        self._loop = asyncio.get_running_loop()
        self._stopped = self._loop.create_future()
        # A daemon, as an interpreter that ends without `stop` must not wait for it.
        threading.Thread(target=self._main, name=name, daemon=True).start()

    async def stop(self) -> None:
        """End the thread once everything is done that was put into the queue before."""
        self._jobs.put(None)
        await self._stopped

    def _main(self) -> None:
        while (first := self._jobs.get()) is not None:
            jobs = self._all_waiting(first)
            self._run(jobs)
            self._tell(self._settle, jobs)  # one wake-up of the loop, however many they are
        self._worker.close()
        self._tell(self._stopped.set_result, None)

    def _all_waiting(self, first: Job) -> list[Job]:
        jobs = [first]
        while len(jobs) < self._at_once and not self._jobs.empty():
            job = self._jobs.get()
            if job is None:
                self._jobs.put(None)
                break
            jobs.append(job)
        return jobs

    def _run(self, jobs: list[Job]) -> None:
        _, error = _attempt(self._worker.run, jobs)
        if error is not None:
            self._worker.close()
        for job in jobs:
            job.error = job.error or error
            if job.error is not None:
                job.error = self._worker.explain(job.error)

    def _tell(self, callback: Callable[[Any], None], argument: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(callback, argument)
        except RuntimeError:
            _log.debug("the event loop ended before its database was closed")


def _attempt(
    fn: Callable[[Any], _T], argument: Any
) -> tuple[_T, None] | tuple[None, BaseException]:
    """Call a function whose error belongs to somebody who waits in another thread."""
    try:
        return fn(argument), None
    except StopIteration as error:  # a future refuses to carry it
        return None, RuntimeError(f"a transaction raised {error!r}")
    except BaseException as error:  # noqa: BLE001 - not handled here, but carried over
        return None, error


def log_failure(error: BaseException) -> None:
    """Log why a transaction failed whose caller is gone."""
    trace = None if isinstance(error, HermesError) else error
    _log.warning("a transaction whose caller is gone failed: %s", error, exc_info=trace)
