"""Work that fails for no passing reason is tried again, then given up with a word to the person."""

import logging
from collections.abc import Awaitable, Callable

from services.clock import Clock
from services.database.queue import RETRY_S
from services.errors import HermesError, StaleEpoch, Unavailable
from services.lifecycle import result_or_error

ATTEMPTS = 3
MISTAKE = (
    "Something went wrong in Hermes, so this message was not processed. The log has the details."
)

_log = logging.getLogger(__name__)


async def attempt(clock: Clock, what: str, work: Callable[[], Awaitable[object]]) -> str:
    """Do work; return why it failed, as a person is told.

    A refusal is final; an error that is not ours has three attempts. Unavailable and StaleEpoch
    are raised: the work can be done later, or by another replica.
    """
    for number in range(1, ATTEMPTS + 1):
        try:
            error = await result_or_error(work())
        except (Unavailable, StaleEpoch):
            raise
        except HermesError as refusal:
            _log.warning("%s failed: %s", what, refusal)
            return refusal.message
        if not isinstance(error, Exception):
            return ""
        _log.error("%s failed (%d of %d)", what, number, ATTEMPTS, exc_info=error)
        if number < ATTEMPTS:
            await clock.sleep(RETRY_S)
    return MISTAKE
