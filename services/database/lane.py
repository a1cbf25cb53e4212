"""A thread that runs queued jobs and passes the results to the event loop."""

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
    """A function to run in a transaction, and the future of its result."""

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
        self.value, self.error = _attempt(self.fn, connection)

    def settle(self) -> None:
        """Pass the result to the caller, on the event loop; log an error that nobody awaits."""
        if self.future.done():
            if self.error is not None:
                log_failure(self.error)
        elif self.error is None:
            self.future.set_result(self.value)
        else:
            self.future.set_exception(self.error)


class Worker(Protocol):
    """The work of a lane; all methods are called in its thread."""

    def run(self, jobs: Sequence[Job]) -> None:
        """Run the jobs; an exception is the result of all jobs without an error of their own."""
        ...

    def explain(self, error: BaseException) -> BaseException:
        """Return the error for the caller."""
        ...

    def close(self) -> None:
        """Release the worker's resources; the next job opens them again."""
        ...


class Lane:
    """A worker in its own thread; several lanes may share a queue."""

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
        # A daemon thread, so that an interpreter that exits without `stop` does not hang.
        threading.Thread(target=self._main, name=name, daemon=True).start()

    async def stop(self) -> None:
        self._jobs.put(None)
        await self._stopped

    def _main(self) -> None:
        while (first := self._jobs.get()) is not None:
            jobs = self._all_waiting(first)
            self._run(jobs)
            self._tell(self._settle, jobs)  # one wake-up of the loop for all jobs
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
    """Call a function and keep its exception for the caller in another thread."""
    try:
        return fn(argument), None
    except StopIteration as error:  # a future cannot carry it
        return None, RuntimeError(f"a transaction raised {error!r}")
    except BaseException as error:  # noqa: BLE001 - not handled here, but carried over
        return None, error


def log_failure(error: BaseException) -> None:
    """Log why a transaction failed whose caller is gone."""
    trace = None if isinstance(error, HermesError) else error
    _log.warning("a transaction whose caller is gone failed: %s", error, exc_info=trace)
