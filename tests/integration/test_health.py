"""What `hermes health` says of a service."""

import asyncio
from pathlib import Path

import pytest

from services.cli.admin.health import ask
from services.config.settings import load_settings
from services.errors import ServiceUnavailable
from services.rpc.addresses import UnixAddress
from services.rpc.auth import new_tokens
from services.runtime.server import ListenOptions, Server
from tests.fakes.component import Sample


async def test_a_service_is_ready_while_it_serves(tmp_path: Path) -> None:
    where = UnixAddress(tmp_path / "hermes.sock")
    environ = {"HERMES_HOME": str(tmp_path), "HERMES_AGENT_ADDRESS": str(where)}
    # Elsewhere: a channel that has just failed is not tried again at once.
    nowhere = {**environ, "HERMES_AGENT_ADDRESS": f"unix:{tmp_path}/none.sock"}
    settings = await asyncio.to_thread(load_settings, {}, nowhere)
    with pytest.raises(ServiceUnavailable, match=r"the agent at .* is not ready"):
        await ask(settings, "agent")
    settings = await asyncio.to_thread(load_settings, {}, environ)
    async with Server([Sample("agent")], ListenOptions((where,), tokens=new_tokens())) as server:
        await server.start()
        assert await ask(settings, "agent") == "the agent is ready"
