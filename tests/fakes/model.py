"""A model endpoint for tests: a scripted server, with every request kept.

`python -m tests.fakes.model --script FILE --port 0` runs it by itself.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from tests.fakes.model_script import Script
from tests.fakes.model_server import Exchange, ModelServer, Speech


class FakeModel:
    """A running scripted model; `requests` are the model calls, oldest first."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[Exchange] = []
        self._changed = asyncio.Event()

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """The decoded bodies of the requests."""
        return [json.loads(request.body) for request in self.requests]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until requests that came or ended make the condition true."""
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    def observe(self, exchange: Exchange) -> None:
        """Take note of an exchange that begins or ends."""
        if exchange.method == "POST" and not exchange.outcome:
            self.requests.append(exchange)
        self._changed.set()


@asynccontextmanager
async def fake_model(
    script: Mapping[str, Any], speech: Speech | None = None
) -> AsyncGenerator[FakeModel]:
    """Run a scripted model for as long as the context is open."""
    model = FakeModel()
    async with ModelServer(Script.parse(script), model.observe, speech).listen() as model.url:
        yield model


def answers(*replies: Mapping[str, Any]) -> dict[str, Any]:
    """Return a script whose first model calls of a turn get these answers, one after another."""
    return {"rules": [{"steps": [list(replies)]}]}


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    """Return an answer of a script that calls a tool."""
    return {"tool_calls": [{"name": tool, "arguments": arguments}]}


async def serve(script: Path, port: int, host: str) -> None:
    """Serve a script until cancelled; prints the base URL once it listens."""
    async with ModelServer(Script.load(script)).listen(port, host) as url:
        sys.stdout.write(f"{url}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


def main() -> None:
    """Read the arguments and serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--script", type=Path, required=True, help="YAML or JSON")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--host", default="127.0.0.1", help="where it listens (127.0.0.1)")
    arguments = parser.parse_args()
    with suppress(KeyboardInterrupt):
        asyncio.run(serve(arguments.script, arguments.port, arguments.host))


if __name__ == "__main__":
    main()
