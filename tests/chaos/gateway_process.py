"""The agent and the gateway as a process of their own, to be killed: `HOME` is its argument."""

import asyncio
import sys

from services.addresses import Address
from services.cli.process import one_process, run
from services.cli.startup import logged
from services.config import Settings, load_settings


def main() -> None:
    """Serve until killed; the configuration is in the environment."""
    settings = load_settings({"home": sys.argv[1]})
    settings.home.create()
    with logged(settings, "hermes", settings.home.logs / "hermes.log"):
        asyncio.run(serve(settings))


async def serve(settings: Settings) -> None:
    """Say when it serves."""
    plan = await one_process(settings, ("agent", "gateway"), metrics=False)
    await run(settings, plan, ready=ready)


async def ready(_: Address) -> None:
    """Tell whoever has started this."""
    print("ready", flush=True)


if __name__ == "__main__":
    main()
