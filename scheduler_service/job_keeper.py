"""Which database keeps the jobs of a profile, as a mark in the profile's home says.

The home of a profile can be served with the home that it is in, and by itself: each way has a
scheduler with a database of its own. The first that takes jobs of the profile marks its home, and
from then on no other one takes any, so that no job runs in both.
"""

import asyncio
import os
import tempfile
from pathlib import Path

import sqlalchemy as sa

from services.errors import FailedPrecondition
from services.home import DEFAULT_PROFILE, HomeError, HomePaths, is_profile_name
from services.home_jobs import MARK, kept_by


class JobKeeper:
    """Marks homes of profiles for one database, and knows which are marked for another."""

    def __init__(self, home: HomePaths, url: str) -> None:
        """`url` is that of the scheduler's database."""
        self._home = home
        self._url = sa.make_url(url)

    async def other(self, profile: str) -> str:
        """Which database keeps a profile's jobs if not this; else this does from now on."""
        return await asyncio.to_thread(self._other, profile)

    async def check(self, profile: str) -> None:
        """Raise FailedPrecondition if another database, that is there, keeps a profile's jobs."""
        other = await self.other(profile)
        if other and await asyncio.to_thread(Path(other).is_file):
            name = self._home.name if profile == DEFAULT_PROFILE else profile
            how = "" if name == DEFAULT_PROFILE else f", with: hermes jobs --profile {name}"
            raise FailedPrecondition(
                f"the jobs of profile {name} are kept in {other}, which is not this scheduler's "
                f"database; add it there{how}"
            )

    def _other(self, profile: str) -> str:
        if not is_profile_name(profile) or not self._home.profile(profile).root.is_dir():
            return ""  # it has no home here
        root = self._home.profile(profile).root
        name = self._name(root)
        try:
            found = kept_by(root)
            if not found:
                _mark(root / MARK, name)
                found = kept_by(root)
        except OSError as error:
            if self._url.get_backend_name() != "sqlite":
                return ""  # nobody can mark it, and so no other database has taken its jobs
            raise HomeError(f"{root / MARK} cannot be made: {error.strerror}") from None
        return "" if found == name else _shown(root, found)

    def _name(self, root: Path) -> str:
        """The database without secrets; one in the home by its path, so that the home may move."""
        url = self._url
        if url.get_backend_name() != "sqlite" or not url.database:
            plain = sa.URL.create(url.drivername, None, None, url.host, url.port, url.database)
            return plain.render_as_string()
        path = Path(url.database).absolute()
        return os.path.relpath(path, root) if path.parent == self._home.state else str(path)


def _mark(path: Path, name: str) -> None:
    """Make a mark that is whole and on the disk, unless there is one."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(f"{name}\n")
            stream.flush()
            os.fsync(stream.fileno())
        os.link(temporary, path)
    except FileExistsError:
        return  # another database was faster
    finally:
        Path(temporary).unlink()
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _shown(root: Path, name: str) -> str:
    return name if "://" in name else os.path.normpath(root / name)
