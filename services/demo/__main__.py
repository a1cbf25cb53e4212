"""Runs the scripted model's server by itself: `python -m services.demo --script FILE`."""

import argparse
import asyncio
import sys
from contextlib import suppress
from pathlib import Path

from services.demo.model_script import Script
from services.demo.model_server import ModelServer

DEMO_SCRIPT = Path(__file__).with_name("script.yaml")


async def serve(script: Path, port: int, host: str) -> None:
    """Serve a script until cancelled; prints the base URL once it listens."""
    async with ModelServer(Script.load(script)).listen(port, host) as url:
        sys.stdout.write(f"{url}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


def main() -> None:
    """Read the arguments and serve."""
    parser = argparse.ArgumentParser(
        description="An OpenAI-compatible server with scripted answers."
    )
    parser.add_argument(
        "--script", type=Path, default=DEMO_SCRIPT, help="YAML or JSON (the demo's)"
    )
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--host", default="127.0.0.1", help="where it listens (127.0.0.1)")
    arguments = parser.parse_args()
    with suppress(KeyboardInterrupt):
        asyncio.run(serve(arguments.script, arguments.port, arguments.host))


if __name__ == "__main__":
    main()
