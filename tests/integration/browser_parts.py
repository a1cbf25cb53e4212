"""An executor whose commands run on this machine, which has a Chromium for the browser tools."""

import asyncio
import shutil
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from executor_service.backends import Site as BackendSite
from executor_service.backends.base import Backend
from executor_service.sandboxes import opener
from tests.fakes.plain_backend import PlainBackend
from tests.support.executors import Executor, executor_settings, serving
from tests.support.replacement import replaced
from tests.support.requirements import require

CONFIG: dict[str, Any] = {
    "browser": {"template": "default", "python": sys.executable},
    "security": {"browser": {"allow": ["127.0.0.1"]}, "taint": "off"},
}
"""The settings of an agent whose browser may reach sites on this machine."""


@asynccontextmanager
async def chromium_executor(home: Path) -> AsyncGenerator[Executor]:
    """Run the executor; its boxes end with it."""
    await asyncio.to_thread(_need_chromium)
    backend = PlainBackend(home)

    def make(_site: BackendSite) -> Backend:
        return backend

    with replaced(opener, "BACKENDS", {"bubblewrap": make}):
        async with serving(executor_settings(home, "bubblewrap")) as running:
            try:
                yield running
            finally:
                for box in await backend.list_boxes():
                    await backend.destroy(box)


def _need_chromium() -> None:
    require("chromium", shutil.which("chromium") is not None, "apt-get install chromium")
    require("chromium", find_spec("playwright") is not None, "pip install playwright")
