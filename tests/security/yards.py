"""Boxes whose supervisor is not the usual one."""

import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from executor_service.backends.base import Backend
from executor_service.backends.bubblewrap.backend import BubblewrapBackend
from executor_service.backends.docker.backend import DockerBackend
from executor_service.config import DockerConfig
from tests.boxes import Yard
from tests.requirements import require


@asynccontextmanager
async def yard_with(name: str, folder: Path, supervisor: bytes) -> AsyncGenerator[Yard]:
    """A backend of which every box has this supervisor; no box is left at the end."""

    def make(owner: str, notes: Path) -> Backend:
        if name == "docker":
            return DockerBackend(owner, notes, supervisor, DockerConfig())
        return BubblewrapBackend(owner, notes, supervisor)

    yard = await Yard.open(make, f"test-{uuid.uuid4().hex}", folder)
    require(name, yard.capabilities.available, yard.capabilities.reason)
    try:
        yield yard
    finally:
        await yard.close()
