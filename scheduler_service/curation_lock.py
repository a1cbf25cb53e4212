"""Keeps two Hermes with databases of their own from curating the same skills at once.

A profile's home can be served with the home that it is in, and by itself: each way has a scheduler
that knows nothing of the other's runs. The lock is a file of the home that both see.
"""

import asyncio
import fcntl
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from scheduler_service.errors import SkillsBusy
from services.home import HomePaths, is_profile_name

NAME = "curator.lock"
WAIT_S = 5.0
"""For a scheduler of the same database, which may just be letting go of it."""
_TRY_AGAIN_S = 0.1


class CurationLocks:
    """The locks of the homes of all profiles."""

    def __init__(self, home: HomePaths, wait_s: float = WAIT_S) -> None:
        self._home = home
        self._wait_s = wait_s

    @asynccontextmanager
    async def held(self, profile: str) -> AsyncGenerator[None]:
        """Nobody else curates a profile's skills while inside; SkillsBusy where somebody does.

        A profile without a home here has no lock, and needs none.
        """
        file = await asyncio.to_thread(self._open, profile)
        if file is None:
            yield
            return
        try:
            await self._lock(file, profile)
            yield
        finally:
            os.close(file)

    def _open(self, profile: str) -> int | None:
        if not is_profile_name(profile) or not self._home.profile(profile).root.is_dir():
            return None
        run = self._home.profile(profile).run
        try:
            run.mkdir(mode=0o700, exist_ok=True)
            return os.open(run / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            # What cannot be written here nobody curates from here.
            return None

    async def _lock(self, file: int, profile: str) -> None:
        for _ in range(round(self._wait_s / _TRY_AGAIN_S)):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                await asyncio.sleep(_TRY_AGAIN_S)
            else:
                return
        raise SkillsBusy(
            f"another Hermes is at work on the skills of {profile}; if it hangs, end it"
        )
