"""The agent and the gateway as a process of their own, to be killed: `HOME` is its argument."""

import asyncio
import sys

from services.cli.process import one_process, run
from services.cli.startup import logged
from services.config import load_settings


def main() -> None:
    """Serve until killed; the configuration is in the environment."""
    settings = load_settings({"home": sys.argv[1]})
    settings.home.create()
    plan = one_process(settings, ("agent", "gateway"), metrics=False)
    with logged(settings, "hermes", settings.home.logs / "hermes.log"):
        asyncio.run(run(settings, plan, ready=lambda _: print("ready", flush=True)))


if __name__ == "__main__":
    main()
