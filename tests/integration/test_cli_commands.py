"""Commands for databases and MCP servers as processes, and what shells complete."""

import asyncio
import json
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from agent_service.storage import migrations as of_the_agent
from scheduler_service.storage import migrations as of_the_scheduler
from services.cli.admin.database import SCHEMAS
from services.cli.completion import SHELLS
from services.cli.main import COMMANDS
from tests.integration.test_agent_mcp_http import serving
from tests.integration.test_agent_toolsets import hermes
from tests.support.requirements import require


def upgrade(home: Path, *arguments: str, url: str = "") -> subprocess.CompletedProcess[str]:
    environ = {"HERMES_HOME": str(home), "PATH": "/usr/bin:/bin"}
    if url:
        (home / "url").write_text(url)
        environ["HERMES_DATABASE_URL_FILE"] = str(home / "url")
    command = [Path(sys.executable).with_name("hermes"), "database", "upgrade", *arguments]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)


@pytest.mark.timeout(120)
def test_tables_are_made_once_and_then_left_alone(tmp_path: Path, empty_postgres_url: str) -> None:
    first = upgrade(tmp_path, "--json", url=empty_postgres_url)
    assert first.returncode == 0, first.stderr
    made = {each["service"]: each for each in json.loads(first.stdout)}
    assert set(made) == set(SCHEMAS)
    assert made["agent"] == {"service": "agent", "before": None, "after": of_the_agent.HEAD}
    second = upgrade(tmp_path, "scheduler", url=empty_postgres_url)
    assert second.returncode == 0, second.stderr
    assert (
        second.stdout
        == f"the tables of the scheduler have version {of_the_scheduler.HEAD} (unchanged)\n"
    )


def test_what_cannot_be_reached_is_one_line(tmp_path: Path) -> None:
    refused = upgrade(tmp_path, "agent", url="postgresql://hermes:secret@127.0.0.1:1/hermes")
    assert refused.returncode == 1
    assert refused.stderr.startswith("hermes: ")
    assert "secret" not in refused.stderr
    assert upgrade(tmp_path, "nobody").returncode == 2


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


HERMES = Path(sys.executable).with_name("hermes")


def script(shell: str) -> str:
    done = subprocess.run([HERMES, "completion", shell], capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.parametrize("shell", SHELLS)
def test_every_command_is_in_it(shell: str) -> None:
    text = script(shell)
    assert [name for name in COMMANDS if name not in text] == []


def completed(line: str) -> set[str]:
    """What bash offers behind a line."""
    require("bash", shutil.which("bash") is not None, "there is no bash")
    words = line.split(" ")
    asked = (
        f"{script('bash')}\n"
        f"COMP_WORDS=({' '.join(word or chr(39) * 2 for word in words)}); "
        f"COMP_CWORD={len(words) - 1}; COMP_LINE='{line}'; COMP_POINT={len(line)}\n"
        "_shtab_hermes\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=False)
    return set(done.stdout.split())


def test_bash_completes_commands_actions_options_and_choices() -> None:
    assert completed("hermes ses") == {"sessions"}
    assert {"list", "pause", "resume"} <= completed("hermes jobs ")
    assert "--prompt" in completed("hermes jobs edit --pro") or completed("hermes jobs edit --")
    assert completed("hermes serve sch") == {"scheduler"}
