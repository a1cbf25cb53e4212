"""Calls made at the same time, and what failed of them as the one failure that it began with."""

import asyncio
from collections.abc import Coroutine, Generator, Iterable
from contextlib import contextmanager
from typing import Any, TypeVar, cast

_T = TypeVar("_T")


async def all_of(calls: Iterable[Coroutine[Any, Any, _T]]) -> list[_T]:
    """What calls return that are made at the same time; the first that fails ends the others."""
    with ungrouped():
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(call) for call in calls]
    return [task.result() for task in tasks]


async def each_of(calls: Iterable[Coroutine[Any, Any, object]]) -> None:
    """Make calls at the same time, of which none ends another; fails when all of them have ended.

    Of several failures the one is raised whose call was named first.
    """
    for outcome in await asyncio.gather(*calls, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome


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
