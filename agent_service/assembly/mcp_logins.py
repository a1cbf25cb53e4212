"""Implements `hermes mcp login`."""

import asyncio
from collections.abc import AsyncGenerator

from agent_service.assembly.logins import opened_store
from agent_service.assembly.mcp import http_streams
from agent_service.config import AgentConfig
from agent_service.records.mcp import LOGINS, ServerCatalog
from agent_service.tools.mcp.connections import load_sdk
from services.clock import SystemClock
from services.config.settings import Settings
from services.errors import FailedPrecondition, NotFound
from services.lifecycle import Workers
from services.runtime.logins import LoggedIn

LOGIN_S = 600.0
"""How long a person may take."""


async def log_in(settings: Settings, name: str, port: int) -> AsyncGenerator[str | LoggedIn]:
    """Yield the page to open, then the stored login; FailedPrecondition if there is none."""
    config = settings.load(AgentConfig)
    if (server := config.mcp_servers.get(name)) is None:
        raise NotFound(f"there is no MCP server {name} in {settings.home.config}")
    if not server.url:
        raise FailedPrecondition(f"{name} is a command, which has no login")
    await asyncio.to_thread(load_sdk)
    from agent_service.tools.mcp.connection import ServerConnection, ServerFailed
    from agent_service.tools.mcp.oauth import Callback, StoredLogin

    patient = server.model_copy(update={"connect_timeout": LOGIN_S, "auth": "oauth"})
    pages: asyncio.Queue[str] = asyncio.Queue()
    async with (
        opened_store(settings, config) as store,
        Callback(pages.put, port) as callback,
        Workers() as workers,
    ):
        login = StoredLogin(name, server.url, store, SystemClock(), callback)
        connection = ServerConnection(
            name, patient, lambda _: http_streams(config, patient, login), _same
        )
        running = workers.start("the login", connection.run())
        settled = workers.start("the login's end", connection.settled())
        page = workers.start("the login's page", pages.get())
        await asyncio.wait({settled, page}, return_when=asyncio.FIRST_COMPLETED)
        if page.done():
            yield page.result()
        try:
            await connection.opened()
        except ServerFailed as error:
            raise FailedPrecondition(f"there is no login at {name}: {error}") from None
        # A token may just be renewed, which must be stored.
        connection.close()
        await running
        yield LoggedIn(store.place.name, None, "")


async def log_out(settings: Settings, name: str) -> bool:
    """Forget a login; return whether there was one."""
    config, clock = settings.load(AgentConfig), SystemClock()
    async with opened_store(settings, config) as store:
        was_there = bool(await store.read_entry(LOGINS, name))
        if was_there:
            await store.keep_entry(LOGINS, name, {}, (), clock.now())
        return was_there


async def _same(catalog: ServerCatalog) -> ServerCatalog:
    return catalog
