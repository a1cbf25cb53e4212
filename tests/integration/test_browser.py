"""The browser tools with a real Chromium: tasks on a site with what real sites have."""

import asyncio
import json
import re
import shutil
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest
import pytest_asyncio

from agent_service.config.tools import BrowserConfig
from agent_service.tools.builtin import Asking
from executor_service.backends import Site as BackendSite
from executor_service.backends.base import Backend
from executor_service.sandboxes import opener
from tests.fakes.browser_site import BrowserSite, browser_site
from tests.fakes.model import fake_model
from tests.fakes.plain_backend import PlainBackend
from tests.integration.agent_parts import answer
from tests.integration.agent_processes import AgentProcess, Site
from tests.integration.agent_tool_parts import Tools, open_tools
from tests.integration.test_agent_web import answers, call
from tests.support.executors import Executor, executor_settings, serving, until
from tests.support.replacement import replaced
from tests.support.requirements import require

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(90)]

UNASKED = Asking(tainted=False)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def executor(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Executor]:
    """An executor whose commands run on this machine, which has a Chromium."""
    require("chromium", shutil.which("chromium") is not None, "apt-get install chromium")
    require("chromium", find_spec("playwright") is not None, "pip install playwright")
    home = tmp_path_factory.mktemp("home")
    backend = PlainBackend(home)

    def make(_site: BackendSite) -> Backend:
        return backend

    with replaced(opener, "BACKENDS", {"bubblewrap": make}):
        async with serving(executor_settings(home, "bubblewrap")) as running:
            yield running
            for box in await backend.list_boxes():
                await backend.destroy(box)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site() -> AsyncGenerator[BrowserSite]:
    async with browser_site() as opened:
        yield opened


@asynccontextmanager
async def browsing(
    executor: Executor, allow: tuple[str, ...] = ("127.0.0.1",), asking: Asking = UNASKED
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


class Person:
    """Uses the browser as a model does: by what a snapshot names."""

    def __init__(self, tools: Tools, site: BrowserSite) -> None:
        self.tools = tools
        self.site = site

    async def open(self, path: str) -> str:
        return await self.tools.text("browser_navigate", url=f"{self.site.url}{path}")

    async def see(self) -> str:
        return await self.tools.text("browser_snapshot")

    async def ref(self, name: str) -> str:
        """The reference of the element that a snapshot describes like this."""
        shown = await self.see()
        found = re.search(rf"{re.escape(name)}.*?\[ref=(\w+)\]", shown)
        assert found is not None, shown
        return found[1]

    async def click(self, name: str, **more: object) -> str:
        return await self.tools.text("browser_click", ref=await self.ref(name), **more)

    async def type(self, name: str, text: str, **more: object) -> str:
        return await self.tools.text("browser_type", ref=await self.ref(name), text=text, **more)


@pytest.fixture
def person(tools: Tools, site: BrowserSite) -> Person:
    return Person(tools, site)


async def test_a_form_is_filled_in_and_sent(person: Person) -> None:
    await person.open("/")
    await person.click('link "Order"')
    await person.type('textbox "Name"', "Ada")
    ref = await person.ref('combobox "Size"')
    await person.tools.text("browser_select", ref=ref, values=["Large"])
    await person.click('checkbox "Gift"')
    await person.click('radio "Card"')
    shown = await person.click('button "Send"')
    assert 'heading "Thanks"' in shown  # a new page is shown at once
    order = {"name": "Ada", "size": "Large", "gift": "on", "pay": "card"}
    assert person.site.orders[-1] == order


async def test_frames_in_frames_are_seen_and_used(person: Person) -> None:
    await person.open("/frames")
    await person.click('button "Press"')
    assert 'button "pressed in a frame"' in await person.see()


async def test_shadow_dom_is_seen_and_used(person: Person) -> None:
    await person.open("/shadow")
    await person.type('textbox "Code"', "SALE")
    await person.click('button "Apply"')
    assert "code SALE" in await person.see()


async def test_dialogs_are_answered_and_told(person: Person) -> None:
    await person.open("/dialogs")
    assert "(alert) said 'careful' and was accepted" in await person.click('button "Alert"')
    assert "(confirm) said 'sure?' and was dismissed" in await person.click('button "Confirm"')
    assert "confirmed false" in await person.see()
    await person.click('button "Confirm"', accept_dialog=True)
    assert "confirmed true" in await person.see()
    await person.click('button "Prompt"', accept_dialog=True, dialog_text="Ada")
    assert "named Ada" in await person.see()


async def test_downloads_come_into_the_workspace(person: Person) -> None:
    await person.open("/")
    ref = await person.ref('link "Report"')
    said = await person.tools.text("browser_download", ref=ref)
    assert "Saved downloads/report.csv (8 bytes)." in said
    assert "a,b" in await person.tools.text("read_file", path="downloads/report.csv")
    assert "Nothing was downloaded." in await person.tools.text("browser_download")


async def test_endless_pages_load_more(person: Person) -> None:
    await person.open("/endless")
    assert "item 90" not in await person.see()
    for _ in range(6):
        await person.tools.text("browser_scroll")
    assert "item 90" in await person.see()


async def test_service_workers_work(person: Person) -> None:
    await person.open("/worker")
    await asyncio.sleep(1)
    assert "made by the worker" in await person.see()


async def test_files_of_the_workspace_are_uploaded(person: Person) -> None:
    await person.tools.text("write_file", path="one.txt", content="first")
    await person.tools.text("write_file", path="two.txt", content="second")
    await person.open("/upload")
    ref = await person.ref('button "Files"')
    await person.tools.text("browser_upload", ref=ref, paths=["one.txt", "two.txt"])
    assert "first,second" in await person.see()


async def test_new_tabs_are_told_and_can_be_selected(person: Person) -> None:
    await person.open("/")
    assert "Tab 2 was opened" in await person.click('link "Terms"')
    assert "2: Terms" in await person.tools.text("browser_tabs")
    assert "The terms." in await person.tools.text("browser_tabs", action="select", tab=2)
    listed = await person.tools.text("browser_tabs", action="close", tab=2)
    assert "Terms" not in listed.partition("\n")[0]


async def test_the_console_has_messages_and_errors(person: Person) -> None:
    await person.open("/console")
    await person.click('button "Go"')
    said = await person.tools.text("browser_console", clear=True)
    assert "warning: odd" in said
    assert "uncaught: missing is not defined" in said
    assert "Nothing was logged." in await person.tools.text("browser_console")


async def test_keys_are_pressed_and_pages_gone_back_to(person: Person) -> None:
    await person.open("/popup")
    await person.open("/keys")
    await person.tools.text("browser_press", key="Escape")
    assert "key Escape" in await person.see()
    assert "The terms." in await person.tools.text("browser_back")


async def test_a_screenshot_is_a_picture_of_the_result(person: Person) -> None:
    await person.open("/form")
    returned = await person.tools("browser_screenshot")
    assert [part["type"] for part in returned.parts] == ["text", "image_url"]
    path = re.search(r"pictures/screenshot-\w+\.jpeg", returned.parts[0]["text"])
    assert path is not None
    assert path[0].partition("/")[2] in await person.tools.text("list_directory", path="pictures")
    assert "[Untrusted data" in returned.text


async def test_references_of_an_earlier_page_are_refused_at_once(person: Person) -> None:
    await person.open("/form")
    told = await person.tools.refusal("browser_click", ref="e99")
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
async def test_what_may_not_be_opened_is_refused(person: Person, url: str, why: str) -> None:
    assert why in await person.tools.refusal("browser_navigate", url=url)


async def test_pages_reach_no_private_addresses(person: Person) -> None:
    await person.open("/steals")
    await asyncio.sleep(1)
    assert "rejected,rejected,rejected,rejected" in await person.see()
    there = f"{person.site.url}/away?to=http://10.0.0.1/"
    told = await person.tools.refusal("browser_navigate", url=there)
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
    config = {
        "browser": {"template": "default", "python": sys.executable},
        "security": {"browser": {"allow": ["127.0.0.1"]}, "taint": "off"},
    }
    for name in ("one", "two"):
        await asyncio.to_thread((tmp_path / name).mkdir)
        await asyncio.to_thread((tmp_path / name / "config.yaml").write_text, json.dumps(config))
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
    async with browsing(executor, asking=Asking()) as tools:
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
            f"browser_navigate {site.url}/?q=what-I-have-read",
        ]
