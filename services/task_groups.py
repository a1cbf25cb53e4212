"""What has failed in a group of tasks, as the one failure that it began with."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import cast


@contextmanager
def ungrouped() -> Generator[None]:
    """Raise what has failed first in a task group inside, so that who catches it knows it."""
    try:
        yield
    except BaseExceptionGroup as failed:
        raise first_failure(failed) from None


def first_failure(error: BaseException) -> BaseException:
    """What has failed first; a group says only how many have."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    group = cast("BaseExceptionGroup[BaseException]", error)
    return first_failure(group.exceptions[0])
