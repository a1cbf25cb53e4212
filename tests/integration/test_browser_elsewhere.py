"""A browser that runs already, used by a whole agent whose model sees."""

import asyncio
import json
import re
import shutil
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent_service.clients.browsers import BrowserProcesses
from agent_service.tools.base import Caller
from tests.fakes.browser_site import browser_site
from tests.fakes.model import call, fake_model
from tests.integration.agent_parts import agent, answer
from tests.support.executors import until
from tests.support.requirements import require

pytestmark = pytest.mark.timeout(90)


@asynccontextmanager
async def chromium(folder: Path) -> AsyncGenerator[str]:
    """A Chromium with DevTools at an address of this machine."""
    program = await asyncio.to_thread(shutil.which, "chromium")
    require("chromium", program is not None, "apt-get install chromium")
    process = await asyncio.create_subprocess_exec(
        *(program or "", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
        *("--remote-debugging-port=0", f"--user-data-dir={folder}"),
        stdout=DEVNULL,
        stderr=DEVNULL,
    )
    found = folder / "DevToolsActivePort"
    try:
        await until(lambda: asyncio.to_thread(found.exists), 30)
        await asyncio.sleep(0.5)  # it is written after it is made
        port = (await asyncio.to_thread(found.read_text)).partition("\n")[0]
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        await process.wait()


async def test_a_model_that_sees_gets_a_screenshot_of_a_page(tmp_path: Path) -> None:
    async with chromium(tmp_path / "profile") as cdp_url, browser_site() as site:
        config = {
            "browser": {"cdp_url": cdp_url},
            "security": {"browser": {"allow": ["127.0.0.1"]}, "taint": "off"},
            "models": {"scripted": {"vision": True}},
        }
        await asyncio.to_thread((tmp_path / "config.yaml").write_text, json.dumps(config))
        steps = [
            call("browser_navigate", url=f"{site.url}/form"),
            call("browser_navigate", url="http://169.254.169.254/latest/meta-data"),
            call("browser_navigate", url=f"{site.url}/steals"),
            call("browser_screenshot"),
        ]
        seen = {"user": "The picture pictures/", "steps": [{"text": "It is a form."}]}
        script = {"rules": [seen, {"steps": steps}]}
        async with fake_model(script) as model, agent(tmp_path, model.url) as client:
            assert answer(await client.ask("What is there?")) == "It is a form."
    messages = model.bodies[-1]["messages"]
    opened, metadata, steals, screenshot = (m["content"] for m in messages if m["role"] == "tool")
    assert 'textbox "Name"' in opened
    assert "169.254.169.254 is not a public address" in metadata
    assert "[Not reached: 10.0.0.1 is not a public address, and not named in" in steals
    assert "[Untrusted data" in screenshot
    note, picture = messages[-1]["content"]
    assert "pictures/screenshot-" in note["text"]
    assert picture["image_url"]["url"].startswith("data:image/jpeg;base64,")


async def test_lists_hold_over_redirects_and_for_websockets(tmp_path: Path) -> None:
    async with (
        chromium(tmp_path / "profile") as cdp_url,
        browser_site() as site,
        browser_site("127.0.0.2") as denied,
    ):
        lists: dict[str, Any] = {"allow": ["127.0.0.1", "127.0.0.2"], "deny": ["127.0.0.2"]}
        connection = await BrowserProcesses().connect(Caller(), {})
        await connection.exchange({"id": 0, "cdp_url": cdp_url, **lists})

        async def open_page(path: str) -> str:
            request = {"id": path, "op": "navigate", "url": f"{site.url}{path}"}
            return (await connection.exchange(request))["text"]

        for path in ("/away", "/embeds"):
            told = await open_page(f"{path}?to={denied.url}/form")
            assert told.startswith("The page was closed and is not shown"), told
            assert "127.0.0.2 is on security.browser.deny" in told
            assert "textbox" not in told
        assert "textbox" in await open_page(f"/away?to={site.url}/form")
        for each in (site, denied):
            await open_page(f"/talks?to={each.url.replace('http', 'ws')}/socket")
        shown = await connection.exchange({"id": 1, "op": "snapshot"})
        assert "closed" in shown["text"]
        await connection.close()
    assert "/socket" in site.paths
    assert "/socket" not in denied.paths


async def test_an_address_that_cannot_be_connected_to_is_not_told() -> None:
    connection = await BrowserProcesses().connect(Caller(), {})
    told = await connection.exchange({"id": 0, "cdp_url": "ws://me:secret@127.0.0.1:1/?token=x"})
    await connection.close()
    assert told["is_error"]
    assert "browser.cdp_url" in told["text"]
    assert not {"secret", "token", "127.0.0.1"} & set(re.findall(r"[\w.]+", told["text"]))
