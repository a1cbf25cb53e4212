"""`hermes mcp add`, `list`, `test`, `login` and `remove`."""

import asyncio
import json
import sys
from pathlib import Path

import httpx
import pytest

from tests.integration.test_agent_mcp_http import serving
from tests.integration.test_agent_toolsets import hermes

SECRET = "sk-live-0123456789abcdef"


@pytest.mark.timeout(240)
async def test_a_server_is_added_tested_logged_in_to_and_removed(tmp_path: Path) -> None:
    async def run(*arguments: str) -> str:
        done = await asyncio.to_thread(hermes, tmp_path, "mcp", *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    async with serving("--logins") as url:
        header = "X-Trace: private"
        added = await run("add", "far", "--url", url, "--oauth", "--header", header, "--json")
        assert json.loads(added)["server"]["headers"] == {"X-Trace": "[REDACTED]"}
        listed = await run("list")
        assert "not connected yet" in listed
        assert "private" not in listed
        command = "from services.cli.main import main; main()"
        argv = (command, "mcp", "login", "far", "--json", "--home", str(tmp_path))
        login = await asyncio.create_subprocess_exec(
            sys.executable, "-c", *argv, stdout=asyncio.subprocess.PIPE
        )
        assert login.stdout is not None
        page = json.loads(await login.stdout.readline())["url"]
        async with httpx.AsyncClient() as browser:
            await browser.get(page, follow_redirects=True)
        assert json.loads(await login.stdout.readline())["event"] == "logged_in"
        assert await login.wait() == 0
        assert "It offers 2 tools and resources." in await run("test", "far")
        assert "not connected yet" not in await run("list")
    logins = tmp_path / "auth.json"
    assert "far" in await asyncio.to_thread(logins.read_text)
    await run("remove", "far", "--yes")
    assert "far" not in await asyncio.to_thread(logins.read_text)
    assert "no MCP servers" in await run("list")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("x.y", "--command", "true"), "is not a name"),
        (("a", "--command", "run --api-key abc"), "executor.secrets"),
        (("a", "--command", "run --token=abc"), "executor.secrets"),
        (("a", "--command", f"run {SECRET}"), "executor.secrets"),
        (("a", "--url", "https://a.example/", "--header", "X-API-Key: abc"), "into .env"),
        (("a", "--url", "https://a.example/", "--header", "Authorization: abc"), "into .env"),
        (("a", "--url", "https://a.example/", "--header", f"X-Trace: {SECRET}"), "into .env"),
    ],
)
def test_secrets_and_unusable_names_are_refused(
    tmp_path: Path, arguments: tuple[str, ...], told: str
) -> None:
    refused = hermes(tmp_path, "mcp", "add", *arguments)
    assert refused.returncode != 0
    assert told in refused.stderr
    assert not (tmp_path / "config.yaml").exists()
