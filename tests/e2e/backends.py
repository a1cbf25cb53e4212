"""The sandbox backends of the scenarios, where they run."""

import asyncio
from pathlib import Path

from tests.support.boxes import open_yard
from tests.support.docker_engine import docker_client

BACKENDS = ("bubblewrap", "docker")


def need_backend(name: str, folder: Path) -> str:
    """The backend's name, where it runs; else a visible skip."""
    if name == "docker":
        docker_client().close()
    else:
        asyncio.run(_probe(name, folder))
    return name


def sandboxed(backend: str) -> dict[str, dict[str, str]]:
    """A config.yaml that names the backend."""
    return {"terminal": {"backend": backend}}


async def _probe(name: str, folder: Path) -> None:
    async with open_yard(name, folder):
        pass
