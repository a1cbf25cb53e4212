"""`hermes login` and `hermes logout` as a person and a script run them."""

import asyncio
import json
import signal
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.home import Home, Result, check_complaint
from tests.fakes.logins import USER_CODE, FakeLogins, fake_logins

PROVIDERS = pytest.mark.parametrize(
    ("provider", "title"), [("nous", "Nous Portal"), ("codex", "OpenAI Codex")]
)


@pytest.fixture
async def server() -> AsyncIterator[FakeLogins]:
    async with fake_logins() as fake:
        yield fake


@pytest.fixture
async def home(server: FakeLogins, tmp_path: Path) -> Home:
    urls = {"HERMES_NOUS_PORTAL_URL": server.url, "HERMES_CODEX_AUTH_URL": server.url}
    return await asyncio.to_thread(lambda: Home.make(tmp_path, None, **urls))


async def run(home: Home, *argv: str) -> Result:
    return await asyncio.to_thread(home.run, *argv)


def kept(home: Home) -> tuple[dict[str, Any], int]:
    path = home.path / "auth.json"
    return json.loads(path.read_text(encoding="utf-8")), stat.S_IMODE(path.stat().st_mode)


@PROVIDERS
async def test_a_person_logs_in_and_out(
    home: Home, server: FakeLogins, provider: str, title: str
) -> None:
    server.polls = ["authorization_pending"]
    shown = await run(home, "login", provider)
    assert (shown.status, shown.err) == (0, "")
    assert f"  {USER_CODE}\n" in shown.out
    assert f"  {server.url}/" in shown.out
    assert f"Logged in to {title}" in shown.out
    assert "Hermes now uses its models" in shown.out
    document, mode = await asyncio.to_thread(kept, home)
    assert mode == 0o600
    assert len(document["providers"]) == 1
    again = await run(home, "login", provider)
    assert again.status == 0
    assert "from now on" not in again.out
    left = await run(home, "logout", provider)
    assert (left.status, left.err) == (0, "")
    document, _ = await asyncio.to_thread(kept, home)
    assert document["providers"] == {}
    assert "There was no login" in (await run(home, "logout", provider)).out
    logs = await asyncio.to_thread(home.logs)
    told = shown.out + again.out + left.out + logs
    assert [secret for secret in server.issued if secret in told] == []


async def test_ctrl_c_stops_waiting_and_leaves_nothing(home: Home, server: FakeLogins) -> None:
    server.polls = ["authorization_pending"] * 100

    def interrupted() -> tuple[int, str, str]:
        with home.spawn("login", "nous", "--json") as waiting:
            assert waiting.stdout is not None
            line = waiting.stdout.readline()
            waiting.send_signal(signal.SIGINT)
            _, err = waiting.communicate(timeout=20)
        return waiting.returncode, line, err

    status, line, err = await asyncio.to_thread(interrupted)
    assert json.loads(line)["user_code"] == USER_CODE
    assert (status, err) == (130, "")
    assert not await asyncio.to_thread((home.path / "auth.json").exists)


async def test_what_goes_wrong_is_one_line(home: Home, server: FakeLogins) -> None:
    server.polls = ["access_denied"]
    check_complaint(await run(home, "login", "nous"), "The login was refused in the browser")
    server.no_device_codes = True
    check_complaint(await run(home, "login", "codex"), "security settings of ChatGPT")
    gone = home.set(HERMES_CODEX_AUTH_URL="http://127.0.0.1:9")
    check_complaint(await run(gone, "login", "codex"), "cannot be asked at 127.0.0.1:9", "later")
    plain = home.set(HERMES_CODEX_AUTH_URL="http://auth.example.org")
    check_complaint(await run(plain, "login", "codex"), "must begin with https://")
    away = home.set(HERMES_AGENT_ADDRESS="127.0.0.1:9")
    check_complaint(await run(away, "login", "nous"), "127.0.0.1:9", "log in there")
    check_complaint(await run(home, "login", "elsewhere"), "nous, codex")
    check_complaint(await run(home, "login"), "provider")
