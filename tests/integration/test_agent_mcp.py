"""Tools of MCP servers in the real loop, with programs in real sandboxes."""

import json
import shutil
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import mcp_program
from tests.fakes.model import FakeModel, fake_model
from tests.integration.agent_parts import AgentClient, agent, answer
from tests.integration.test_agent_web import answers, call


@pytest.fixture
def home(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A home with the server `bad`, whose program is in the folder beside it."""
    home, folder = tmp_path / "home", tmp_path / "program"
    home.mkdir()
    folder.mkdir()
    shutil.copy(mcp_program.__file__, folder / "server.py")
    folder.chmod(0o777)
    entry = {"command": "python3", "args": ["/workspace/server.py"], "workdir": str(folder)}
    config = {"mcp_servers": {"bad": {**entry, **getattr(request, "param", {})}}}
    (home / "config.yaml").write_text(json.dumps(config))
    return home


@asynccontextmanager
async def running(home: Path, *replies: Any) -> AsyncGenerator[tuple[AgentClient, FakeModel]]:
    """An agent with real sandboxes, and its scripted model."""
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(fake_model(answers(*replies)))
        client = await stack.enter_async_context(
            agent(
                home,
                model.url,
                ("agent", "executor"),
                HERMES_BACKEND="bubblewrap",
                HERMES_ALLOW_WORKDIR="true",
                HERMES_WARM_POOL_SIZE="0",
                HERMES_KEEP_SANDBOXES="false",
            )
        )
        yield client, model


async def test_a_tool_of_a_program_is_offered_and_called(home: Path) -> None:
    calls = call("mcp_bad_echo", text="otters"), {"text": "{tool_result}"}
    async with running(home, *calls) as (client, model):
        told = answer(await client.ask("repeat"))
    assert "echo: otters" in told
    assert "Untrusted data" in told
    (echo,) = [t for t in model.bodies[0]["tools"] if t["function"]["name"] == "mcp_bad_echo"]
    assert echo["function"]["description"] == "Repeats."
    assert model.bodies[0]["tools"] == model.bodies[1]["tools"]
