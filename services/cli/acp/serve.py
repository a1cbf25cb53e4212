"""Runs the agent for an editor: JSON-RPC over standard input and output."""

import asyncio
import sys

import acp
from acp.core import DEFAULT_STDIO_BUFFER_LIMIT_BYTES
from acp.stdio import stdio_streams

from services.cli.acp.agent import HermesAgent
from services.cli.connection import at_home, connected, has_services, reach
from services.cli.failures import EXPECTED, explain
from services.cli.first_run import NoModel, with_model
from services.config.settings import Settings, load_settings
from services.lifecycle import Workers

_SERVICES = ("agent", "executor", "gateway")
_AUTH_REQUIRED, _INTERNAL = -32000, -32603


async def serve(settings: Settings, profile: str) -> int:
    """Serve the editor until it closes standard input."""
    reader, writer = await stdio_streams(limit=DEFAULT_STDIO_BUFFER_LIMIT_BYTES)
    sys.stdout = sys.stderr  # standard output is for the protocol alone
    async with Workers() as workers:
        agent = HermesAgent(settings, profile, workers)
        talking = workers.start("editor", _talk(agent, reader, writer))
        await _connect(settings, agent, talking)
    return 0


async def _talk(
    agent: HermesAgent, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    connection = acp.AgentSideConnection(
        agent, writer, reader, listening=False, use_unstable_protocol=True
    )
    try:
        await connection.listen()
    finally:
        await connection.close()


async def _connect(settings: Settings, agent: HermesAgent, talking: asyncio.Task[None]) -> None:
    """Connect to the services when a call needs them, at first at once; keep them to the end."""
    agent.connection.wanted.set()
    talking.add_done_callback(lambda _: agent.connection.wanted.set())
    while True:
        await agent.connection.wanted.wait()
        if talking.done():
            return
        settings = load_settings(settings.flags, settings.environ)
        try:
            needed = await _needed(settings)
            if "agent" in needed and not await has_services(settings, needed):
                settings = await with_model(settings, may_ask=False)
            async with connected(settings, needed) as channels:
                agent.connection.succeed(channels)
                await asyncio.wait({talking})
        except NoModel as missing:
            agent.connection.fail(acp.RequestError(_AUTH_REQUIRED, missing.message))
        except EXPECTED as error:
            if agent.connection.is_open:
                return  # this process was told to stop
            agent.connection.fail(acp.RequestError(_INTERNAL, explain(error)))


async def _needed(settings: Settings) -> tuple[str, ...]:
    needed = at_home(settings, _SERVICES)
    if "gateway" not in needed:
        return ("agent", "gateway")
    await reach(settings, ("agent",))  # a gateway here would wait for it silently
    return tuple(dict.fromkeys((*needed, "agent")))
