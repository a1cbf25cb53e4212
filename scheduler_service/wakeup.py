"""The one job that this process has in APScheduler: its planner's next wake-up."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from apscheduler.job import Job
    from apscheduler.schedulers.asyncio import AsyncIOScheduler


class WakeUp:
    """Calls a function again and again while it is open, the next time when it was last told.

    APScheduler counts the time and nothing else: which jobs are due is for the database to say,
    as none of APScheduler's stores can be shared by several schedulers.
    """

    def __init__(self, wake: Callable[[], None], at_least_every_s: float) -> None:
        self._wake = wake
        self._at_least_every_s = at_least_every_s
        self._scheduler: AsyncIOScheduler | None = None
        self._job: Job | None = None

    async def __aenter__(self) -> Self:
        self._scheduler = await asyncio.to_thread(_scheduler)
        self._scheduler.start()
        self._job = self._scheduler.add_job(
            self._wake,
            "interval",
            seconds=self._at_least_every_s,
            id="wake-up",
            misfire_grace_time=None,
            coalesce=True,
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._scheduler is not None:
            self._scheduler.shutdown(wait=False)

    def be_in(self, seconds: float) -> None:
        """Let the next time be in so many seconds, if it were later otherwise."""
        assert self._job is not None
        seconds = min(seconds, self._at_least_every_s)
        # By the clock that APScheduler goes by.
        self._job.modify(next_run_time=datetime.now(UTC) + timedelta(seconds=seconds))


def _scheduler() -> "AsyncIOScheduler":
    from apscheduler.executors.debug import DebugExecutor
    from apscheduler.schedulers.asyncio import AsyncIOScheduler

    # This executor calls the function where it stands, without a thread or task.
    return AsyncIOScheduler(timezone=UTC, executors={"default": DebugExecutor()})
