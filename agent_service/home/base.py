"""The seam of what keeps all files of profiles, for moving them as a whole."""

from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from services.errors import AlreadyExists, FailedPrecondition
from services.home_files import Contents, HomeFile, LeftOut

PIECE_BYTES = 256 * 1024
_NAMED = 10


class Existing(StrEnum):
    """What becomes of files that are there already with other bytes."""

    REFUSE = "refuse"
    KEEP = "keep"
    REPLACE = "replace"


class Taken(Struct, frozen=True):
    """What became of the files that came, each by profile and path."""

    added: Sequence[tuple[str, str]] = ()
    replaced: Sequence[tuple[str, str]] = ()
    kept: Sequence[tuple[str, str]] = ()
    unchanged: Sequence[tuple[str, str]] = ()
    left_out: Sequence[LeftOut] = ()

    @property
    def written(self) -> Sequence[tuple[str, str]]:
        """Those that are now as they came."""
        return (*self.added, *self.replaced)


class Incoming(Protocol):
    """Files on their way in, none of which is in its place yet."""

    async def add(self, file: HomeFile) -> None:
        """Begin a file; InvalidArgument where there cannot be one."""
        ...

    async def write(self, data: bytes) -> None:
        """Add to the file that was begun last."""
        ...

    async def put(self, existing: Existing, *, dry_run: bool) -> Taken:
        """Put them all in their places or none, or only say what that would be."""
        ...


class HomeStore(Protocol):
    """Keeps all files of profiles."""

    async def profiles(self) -> Sequence[str]:
        """The profiles that have any, and the default one."""
        ...

    async def contents(self, profile: str) -> Contents:
        """What moves with a profile, by path."""
        ...

    def read(self, file: HomeFile) -> AsyncGenerator[bytes]:
        """A file in pieces; nothing where it is gone."""
        ...

    def incoming(self) -> AbstractAsyncContextManager[Incoming]:
        """Take files; what was not put is forgotten when the context is left."""
        ...

    async def recover(self) -> None:
        """Finish, or forget, what was under way when a process died."""
        ...


def refuse(conflicts: Sequence[tuple[str, str]]) -> None:
    """Say which files are in the way, if any."""
    if not conflicts:
        return
    named = ", ".join(f"{path} ({profile})" for profile, path in conflicts[:_NAMED])
    more = f" and {len(conflicts) - _NAMED} more" if len(conflicts) > _NAMED else ""
    count = "1 file is" if len(conflicts) == 1 else f"{len(conflicts)} files are"
    raise AlreadyExists(f"{count} there already with other content: {named}{more}")


def check_places(coming: Collection[tuple[str, str]], there: Collection[tuple[str, str]]) -> None:
    """Refuse a file where another, by profile and path, needs a folder."""
    folders = {(profile, folder) for profile, path in there for folder in _folders(path)}
    for profile, path in coming:
        problem = f"{path} is a folder" if (profile, path) in folders else ""
        for folder in _folders(path):
            if (profile, folder) in there:
                problem = f"{folder} is a file"
        if problem:
            raise FailedPrecondition(f"{path} ({profile}) has no place: {problem}")


def _folders(path: str) -> Sequence[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]
