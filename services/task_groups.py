"""Calls made at the same time, and what failed of them as the one failure that it began with."""

import asyncio
import logging
from collections.abc import Coroutine, Generator, Iterable
from contextlib import contextmanager
from typing import Any, TypeVar, cast

_T = TypeVar("_T")

_log = logging.getLogger(__name__)


async def all_of(calls: Iterable[Coroutine[Any, Any, _T]]) -> list[_T]:
    """What calls return that are made at the same time; the first that fails ends the others."""
    with ungrouped():
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(call) for call in calls]
    return [task.result() for task in tasks]


async def each_of(calls: Iterable[Coroutine[Any, Any, object]]) -> None:
    """Make calls at the same time, of which none ends another; fails when all of them have ended.

    Of several failures the one is raised whose call was named first, and the others are logged.
    """
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    failed = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    for other in failed[1:]:
        _log.warning("another call at the same time failed, too", exc_info=other)
    if failed:
        raise failed[0]


@contextmanager
def ungrouped() -> Generator[None]:
    """Raise what has failed first in a task group inside, so that who catches it knows it."""
    try:
        yield
    except BaseExceptionGroup as failed:
        first = first_failure(failed)
        raise first from first.__cause__


def first_failure(error: BaseException) -> BaseException:
    """What has failed first; a group says only how many have."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    group = cast("BaseExceptionGroup[BaseException]", error)
    return first_failure(group.exceptions[0])
