"""The browser image: its Chromium in real sandboxes, whose only way out is the executor."""

import asyncio
import json
import re
import time
from collections.abc import AsyncGenerator
from contextlib import closing

import docker
import pytest
import pytest_asyncio
from docker.errors import ImageNotFound

from agent_service.config.tools import BrowserConfig
from executor_service.network.gate import Gate
from services.rpc.public_addresses import AddressVetting
from tests.fakes.browser_site import BrowserSite, browser_site
from tests.integration.agent_tool_parts import Tools, open_tools
from tests.integration.test_browser import UNASKED
from tests.support.docker_engine import engine_answers
from tests.support.executors import Executor, end_boxes, executor_settings, serving
from tests.support.requirements import require
from tests.support.world import FRIENDLY, PUBLIC, Names

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.asyncio(loop_scope="module")]

IMAGE = "hermes-browser:latest"
NAMES = {"shop.test": (FRIENDLY,), "inside.test": ("127.0.0.1",)}
FIRST_PAGE_S, SNAPSHOT_MS = 2.0, 150
"""How long the first page of a warm sandbox may take, and a snapshot of 2,000 elements."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def executor(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Executor]:
    """An executor with sandboxes of the image, for which one address of loopback is public."""
    await asyncio.to_thread(_need_image)
    home = tmp_path_factory.mktemp("home")
    template = {
        "backend": "docker",
        "settings": {"image": IMAGE},
        "network_mode": "open",
        "pids": 1024,
        "warm_pool_size": 1,
    }
    config = {"executor": {"templates": {"browser": template}}}
    await asyncio.to_thread((home / "config.yaml").write_text, json.dumps(config))
    settings = executor_settings(home, "docker")
    gate = Gate(AddressVetting(public=[PUBLIC]), Names(dict(NAMES)))
    async with serving(settings, gate) as running:
        yield running
    await end_boxes(settings)


def _need_image() -> None:
    require("docker", *engine_answers())
    with closing(docker.from_env()) as client:
        try:
            client.images.get(IMAGE)
        except ImageNotFound:
            require("browser", False, f"there is no image {IMAGE}: run `make browser-image`")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site() -> AsyncGenerator[BrowserSite]:
    async with browser_site(FRIENDLY) as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tools(executor: Executor) -> AsyncGenerator[Tools]:
    where = executor.home, executor.address, executor.tokens
    config = BrowserConfig(template="browser")
    async with open_tools(*where, browser=config, asking=UNASKED) as opened:
        yield opened


def shop(site: BrowserSite, path: str) -> str:
    return site.url.replace(FRIENDLY, "shop.test") + path


@pytest.mark.alone
async def test_the_first_page_and_large_snapshots_come_soon(
    tools: Tools, site: BrowserSite
) -> None:
    await asyncio.sleep(5)  # the pool fills
    started = time.monotonic()
    await tools.text("browser_navigate", url=shop(site, "/form"))
    assert time.monotonic() - started < FIRST_PAGE_S
    await tools.text("browser_navigate", url=shop(site, "/many"))
    took_ms: list[float] = []
    for _ in range(15):
        started = time.monotonic()
        await tools.text("browser_snapshot")
        took_ms.append((time.monotonic() - started) * 1000)
    assert sorted(took_ms)[7] < SNAPSHOT_MS


async def test_pages_and_files_cross_the_walls(tools: Tools, site: BrowserSite) -> None:
    shown = await tools.text("browser_navigate", url=shop(site, "/upload"))
    await tools.text("write_file", path="one.txt", content="first")
    ref = re.search(r'button "Files" \[ref=(\w+)\]', shown)
    assert ref is not None, shown
    await tools.text("browser_upload", ref=ref[1], paths=["one.txt"])
    assert "first" in await tools.text("browser_snapshot")
    shown = await tools.text("browser_navigate", url=shop(site, "/"))
    ref = re.search(r'link "Report" \[ref=(\w+)\]', shown)
    assert ref is not None, shown
    assert "Saved downloads/report.csv" in await tools.text("browser_download", ref=ref[1])
    assert not (await tools("browser_screenshot")).is_error


async def test_the_executor_refuses_what_is_not_public(tools: Tools, site: BrowserSite) -> None:
    for url in ("http://inside.test/", "http://169.254.169.254/latest/", "http://10.0.0.1/"):
        assert "no public address" in (await tools("browser_navigate", url=url)).text


async def test_the_session_s_sandbox_has_no_part_in_it(tools: Tools, site: BrowserSite) -> None:
    said = await tools.shell("command -v chromium; env | grep -i proxy; ls -a")
    assert "chromium" not in said
    assert "3128" not in said
