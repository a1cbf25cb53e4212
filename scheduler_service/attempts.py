"""When a run's turns start; pure functions."""

import hashlib
from datetime import datetime, timedelta

from scheduler_service.options import JobOptions

_LONGEST_WAIT = timedelta(days=1)


def first_start(job_id: str, scheduled_for: datetime, options: JobOptions) -> datetime | None:
    """Before which the first turn does not start; None is at once."""
    if not options.jitter_s:
        return None
    # The same whoever asks, and spread evenly over jobs that are due together.
    digest = hashlib.sha256(f"{job_id} {scheduled_for.isoformat()}".encode()).digest()
    share = int.from_bytes(digest[:8]) / 2**64
    return scheduled_for + timedelta(seconds=options.jitter_s * share)


def retry_at(attempt: int, now: datetime, options: JobOptions) -> datetime | None:
    """When a turn is tried again of which so many attempts have failed; None is never."""
    if attempt > options.max_retries:
        return None
    wait = timedelta(seconds=options.retry_backoff_s) * 2 ** (attempt - 1)
    return now + min(wait, _LONGEST_WAIT)
