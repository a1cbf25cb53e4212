"""An executor alone in a process: `python -m tests.bench.executor.server SOCKET`.

Its settings are those of the environment. The tokens are read from standard input.
"""

import asyncio
import json
import sys
from pathlib import Path

from prometheus_client import CollectorRegistry

from executor_service.app import build
from services.addresses import Address, UnixAddress
from services.auth import Identity
from services.channels import Channels
from services.config import load_settings
from services.errors import HermesError
from services.metrics import Meter
from services.server import Listen, serve


async def _main(socket: Path) -> None:
    settings = load_settings({})
    settings.home.create()
    tokens = {Identity(name): token for name, token in json.loads(sys.stdin.readline()).items()}
    service = build(settings, Channels(Identity.EXECUTOR, {}), Meter(CollectorRegistry()))
    try:
        await serve([service], Listen((UnixAddress(socket),), tokens=tokens), ready=_ready)
    except HermesError as error:
        print(error.message, flush=True)


async def _ready(_addresses: tuple[Address, ...]) -> None:
    print("ready", flush=True)


if __name__ == "__main__":
    asyncio.run(_main(Path(sys.argv[1])))
