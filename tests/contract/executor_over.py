"""An executor over any backend of the tests."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from executor_service.backends import Site
from executor_service.backends.base import MIB, Backend
from executor_service.journal import Journal
from executor_service.sandboxes import opener
from tests.support.boxes import Yard
from tests.support.executors import Executor, executor_settings, serving
from tests.support.replacement import replaced

QUOTA_BYTES = 16 * MIB
"""How large its sandboxes' workspaces may be."""


@asynccontextmanager
async def serving_over(yard: Yard, home: Path) -> AsyncGenerator[Executor]:
    """An executor in this process whose sandboxes are made as the yard's; none is left."""
    name, folder = yard.capabilities.name, home / "state" / "executor"
    await asyncio.to_thread(_settle, home)
    async with Journal(folder / "journal.db") as journal:
        owner = journal.owner
    backend = await asyncio.to_thread(yard.make, owner, folder)

    def make(_site: Site) -> Backend:
        return backend

    try:
        with replaced(opener, "BACKENDS", {name: make}):
            settings = await asyncio.to_thread(executor_settings, home, name)
            async with serving(settings) as running:
                await asyncio.to_thread(_let_pass, home)
                yield running
    finally:
        await (await Yard.open(yard.make, owner, folder)).close()


def _settle(home: Path) -> None:
    (home / "state" / "executor").mkdir(parents=True)
    settings = {
        "security": {"allow_local_backend": True},
        "executor": {"workspace_bytes": QUOTA_BYTES},
    }
    (home / "config.yaml").write_text(json.dumps(settings))  # JSON is YAML


def _let_pass(home: Path) -> None:
    """Whoever has a workspace may be another user."""
    for folder in (home, home / "workspaces"):
        folder.chmod(0o711)
