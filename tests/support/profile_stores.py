"""Each kind of store of profiles, for the suites that all of them pass."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from agent_service.assembly.stores import Stores, in_database, in_files
from agent_service.storage.profiles import LOCK_WAIT_S, FileProfiles
from agent_service.storage.schema import metadata
from services.clock import SystemClock
from services.database import Database
from services.database.leases import new_owner
from services.home.paths import HomePaths


@asynccontextmanager
async def stores(
    url: str, folder: Path, *, wait_s: float = LOCK_WAIT_S, replica: str = "one"
) -> AsyncGenerator[Stores]:
    """Rows of the database at a URL as a replica has them, or without one files of the folder."""
    home = HomePaths(folder, folder)
    if not url:
        found = in_files(home)
        documents = FileProfiles(home, lock_wait_s=wait_s)
        yield Stores(documents, found.skills, found.homes, found.reports)
        return
    async with Database(url, "agent") as database:
        await database.migrate(metadata.create_all)
        yield in_database(home, database, new_owner(replica), SystemClock(), wait_s)
