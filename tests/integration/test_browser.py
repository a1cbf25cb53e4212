"""The browser tools with a real Chromium: what they refuse, and what a session keeps."""

import asyncio
import json
import re
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from agent_service.config.tools import BrowserConfig
from agent_service.tools.builtin import ApprovalPolicy
from tests.e2e.home import REPOSITORY
from tests.fakes.browser_site import BrowserSite, browser_site
from tests.fakes.model import call, fake_model
from tests.integration.agent_parts import answer
from tests.integration.agent_processes import AgentProcess, Site
from tests.integration.agent_tool_parts import Tools, open_tools
from tests.integration.browser_parts import CONFIG, chromium_executor
from tests.integration.test_agent_web import answers
from tests.support.executors import Executor, until

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(90)]

ASKED_BY_READING = "(asked because this session has read a browser)"
UNASKED = ApprovalPolicy(tainted=False)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def executor(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Executor]:
    async with chromium_executor(tmp_path_factory.mktemp("home")) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site() -> AsyncGenerator[BrowserSite]:
    async with browser_site() as opened:
        yield opened


@asynccontextmanager
async def browsing(
    executor: Executor, allow: tuple[str, ...] = ("127.0.0.1",), asking: ApprovalPolicy = UNASKED
) -> AsyncGenerator[Tools]:
    """The tools of a new session, whose browser may reach the site."""
    config = BrowserConfig(template="default", python=sys.executable, allow=allow)
    where = executor.home, executor.address, executor.tokens
    async with open_tools(*where, browser=config, asking=asking) as tools:
        yield tools


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tools(executor: Executor) -> AsyncGenerator[Tools]:
    async with browsing(executor) as opened:
        yield opened


async def test_a_screenshot_is_a_picture_of_the_result(tools: Tools, site: BrowserSite) -> None:
    await tools.text("browser_navigate", url=f"{site.url}/form")
    returned = await tools("browser_screenshot")
    assert [part["type"] for part in returned.parts] == ["text", "image_url"]
    path = re.search(r"pictures/screenshot-\w+\.jpeg", returned.parts[0]["text"])
    assert path is not None
    assert path[0].partition("/")[2] in await tools.text("list_directory", path="pictures")
    assert "[Untrusted data" in returned.text


async def test_the_example_of_the_documentation_is_what_the_tools_say(
    executor: Executor, site: BrowserSite
) -> None:
    document = await asyncio.to_thread((REPOSITORY / "docs/browser.md").read_text, "utf-8")
    example = document.partition("## Example\n")[2].partition("\n## ")[0]
    shown = re.findall(r"^```text\n(.*?)^```$", example, re.MULTILINE | re.DOTALL)
    async with browsing(executor) as tools:

        async def said(name: str, /, **arguments: Any) -> str:
            assert f"`{name}`" in example
            assert all(f"`{it}`" in example for it in [arguments.get("ref")] if it)
            told = await tools.text(name, **arguments)
            lines = [line for line in told.splitlines() if "ntrusted data" not in line]
            return "\n".join(lines).replace(site.url, "http://shop.test") + "\n"

        results = [await said("browser_navigate", url=f"{site.url}/form")]
        assert await said("browser_type", ref="e4", text="Ada") == "Typed.\n"
        assert await said("browser_select", ref="e6", values=["Large"]) == "Selected Large.\n"
        results.append(await said("browser_click", ref="e11"))
    assert results == shown


async def test_references_of_an_earlier_page_are_refused_at_once(
    tools: Tools, site: BrowserSite
) -> None:
    await tools.text("browser_navigate", url=f"{site.url}/form")
    told = await tools.refusal("browser_click", ref="e99")
    assert "no element e99 on the page now" in told


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("file:///etc/passwd", "only http and https"),
        ("javascript:alert(1)", "only http and https"),
        ("chrome://version", "only http and https"),
        ("view-source:http://127.0.0.1/", "only http and https"),
        ("http://169.254.169.254/latest/meta-data", "is not on security.browser.allow"),
        ("http://localhost:1/", "is not on security.browser.allow"),
    ],
)
async def test_what_may_not_be_opened_is_refused(tools: Tools, url: str, why: str) -> None:
    assert why in await tools.refusal("browser_navigate", url=url)


async def test_a_redirect_to_a_private_address_is_refused_and_says_why(
    tools: Tools, site: BrowserSite
) -> None:
    there = f"{site.url}/away?to=http://10.0.0.1/"
    told = await tools.refusal("browser_navigate", url=there)
    assert "[Not reached: 10.0.0.1 is not on security.browser.allow]" in told


async def test_without_a_list_only_public_addresses_are_reached(
    executor: Executor, site: BrowserSite
) -> None:
    async with browsing(executor, allow=()) as tools:
        for host in ("127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "2130706433"):
            url = f"{site.url.replace('127.0.0.1', host)}/secret"
            told = await tools.refusal("browser_navigate", url=url)
            assert "is not a public address" in told
        assert "/secret" not in site.paths


async def test_sessions_have_cookies_of_their_own_and_keep_them_over_a_restart(
    executor: Executor, site: BrowserSite
) -> None:
    async with browsing(executor) as one, browsing(executor) as two:
        for tools in (one, two):
            shown = await tools.text("browser_navigate", url=f"{site.url}/cookie")
            assert "had id" not in shown
        (session,) = one.browsers.sessions.values()
        sandbox_session = session.connection.place["session_id"]
        assert re.search(r"\.[0-9a-f]{32}$", sandbox_session), "its name could be guessed"
        # Another process of the agent finds the browser as it was.
        one.browsers.sessions.clear()
        assert "started anew" not in await one.text("browser_snapshot")
        shown = await one.text("browser_navigate", url=f"{site.url}/cookie")
        assert "had id=secret" in shown


async def test_a_killed_agent_s_page_is_there_for_the_next(
    executor: Executor, site: BrowserSite, tmp_path: Path
) -> None:
    """The one that looks at the page again needs no new browser, and no answer is mixed up."""
    for name in ("one", "two"):
        await asyncio.to_thread((tmp_path / name).mkdir)
        await asyncio.to_thread((tmp_path / name / "config.yaml").write_text, json.dumps(CONFIG))
    pages = [call("browser_navigate", url=f"{site.url}/{path}") for path in ("cookie", "slow")]
    steps = answers(*pages, call("browser_back"), {"text": "done"})
    async with fake_model(steps) as model:
        database = f"sqlite:///{tmp_path}/agent.db"
        where = Site(tmp_path, model.url, database, executor.address, executor.tokens)
        async with AgentProcess(where, "one") as first, first.client() as client:
            turn = await client.start("look")
            await until(lambda: "/slow" in site.paths, 60)
        async with AgentProcess(where, "two") as second, second.client() as client:
            assert answer(await client.watch(turn.turn_id)) == "done"
    told = [m["content"] for m in model.bodies[-1]["messages"] if m["role"] == "tool"]
    assert "Page: Slow" in told[1]
    assert "started anew" not in told[1]
    # The page before is still there: the browser is the same.
    assert "had id=secret" in told[2]


async def test_a_lost_browser_is_told_and_its_page_loaded_again(
    executor: Executor, site: BrowserSite
) -> None:
    async with browsing(executor) as tools:
        await tools.text("browser_navigate", url=f"{site.url}/form")
        (session,) = tools.browsers.sessions.values()
        await session.connection.close()
        told = await tools.refusal("browser_click", ref="e1")
        assert "The browser was started anew" in told
        assert f"{site.url}/form was loaded again" in told
        assert 'textbox "Name"' in told
        await tools.text("browser_click", ref="e3")


async def test_a_tainted_session_asks_before_it_says_something_to_a_page(
    executor: Executor, site: BrowserSite
) -> None:
    async with browsing(executor, asking=ApprovalPolicy()) as tools:
        shown = await tools.text("browser_navigate", url=f"{site.url}/form")
        ref = re.search(r'textbox "Name" \[ref=(\w+)\]', shown)
        assert ref is not None
        (session,) = tools.browsers.sessions.values()
        await session.connection.close()
        told = await tools.refusal("browser_type", ref=ref[1], text="hello")
        assert "[Untrusted data" in told.partition('textbox "Name"')[0]
        await tools.text("browser_press", key="Tab")
        await tools.text("browser_click", ref=ref[1])
        await tools.all(("browser_press", {"key": "KeyW"}))
        click = {"ref": ref[1], "accept_dialog": True, "dialog_text": "read"}
        await tools.all(("browser_click", click))
        await tools.all(("browser_type", {"ref": ref[1], "text": "what I have read"}))
        await tools.all(("browser_navigate", {"url": f"{site.url}/?q=what-I-have-read"}))
        assert tools.asked == [
            "browser_press KeyW (127.0.0.1)",
            "browser_click read (127.0.0.1)",
            "browser_type what I have read (127.0.0.1)",
            f"browser_navigate {site.url}/?q=what-I-have-read\n{ASKED_BY_READING}",
        ]
