"""Work on a queue in the database: look for work, do it, wait for a hint, repeat."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from services.database.hints import Hint
from services.errors import Draining, HermesError, StaleEpoch
from services.lifecycle import Workers

RETRY_S = 2.0

_log = logging.getLogger(__name__)


async def poll(
    what: str,
    look: Callable[[], Awaitable[float]],
    hint: Hint | None = None,
    *,
    retry_s: float = RETRY_S,
    between_s: float = 0.0,
) -> None:
    """Look for work until cancelled: at once, on each hint, after the seconds that `look` returns.

    After a HermesError it waits `retry_s` or more; StaleEpoch and Draining end it. One look answers
    all hints within `between_s`.
    """
    hint = hint or Hint()
    loop = asyncio.get_running_loop()
    while True:
        looked_at = loop.time()
        try:
            wait_s = await look()
        except (StaleEpoch, Draining):
            raise
        except HermesError as error:
            _log.warning("%s waits: %s", what, error)
            wait_s = max(retry_s, error.retry_after_s or 0.0)
        if wait_s > 0:
            await hint.wait(wait_s)
            await asyncio.sleep(max(0.0, looked_at + between_s - loop.time()))


class Lanes:
    """Lanes of a queue, served concurrently with one worker each at a time."""

    def __init__(self, name: str, workers: Workers, hint: Hint) -> None:
        """`name` and the lane name the workers in logs."""
        self._name = name
        self._workers = workers
        self._hint = hint
        self.busy: set[str] = set()

    def serve(self, lane: str, work: Coroutine[Any, Any, None]) -> None:
        """Work on an idle lane; then hint at the queue, as more work may have come for the lane."""
        worker = self._workers.start(f"{self._name} {lane}", work)
        self.busy.add(lane)
        worker.add_done_callback(lambda _: self._end(lane))

    def _end(self, lane: str) -> None:
        self.busy.discard(lane)
        self._hint.give()
