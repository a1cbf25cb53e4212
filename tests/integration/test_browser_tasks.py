"""Twelve tasks on a web site: a scripted model does each in a turn of a real agent, with a real
Chromium, and the site or the last result shows whether it was done."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

import pytest
import pytest_asyncio
from msgspec import Struct

from tests.fakes.browser_site import BrowserSite, browser_site
from tests.fakes.model import FakeModel, call, fake_model
from tests.integration.agent_parts import AgentClient, answer
from tests.integration.agent_processes import AgentProcess, Site
from tests.integration.browser_parts import CONFIG, chromium_executor

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(90)]

Step = Mapping[str, Any]
Talk = tuple[AgentClient, FakeModel]
SEE = call("browser_snapshot")


def go(path: str) -> Step:
    """A step in which the model opens a page of the site."""
    return call("browser_navigate", url=f"SITE{path}")


def use(tool: str, element: str, **more: Any) -> Step:
    """A step in which it does something with an element."""
    return call(f"browser_{tool}", ref=f"{{ref:{element}}}", **more)


def click(element: str, **more: Any) -> Step:
    return use("click", element, **more)


class Task(Struct, frozen=True):
    """What the model does, and what the results say in this order."""

    steps: Sequence[Step]
    says: Sequence[str] = ()
    orders: Sequence[Mapping[str, str]] = ()
    """What the site gets."""


TASKS = {
    "fill in a form": Task(
        [
            *(go("/"), click('link "Order"'), use("type", 'textbox "Name"', text="Ada")),
            *(click('checkbox "Gift"'), click('radio "Card"'), click('button "Send"')),
        ],
        ['heading "Thanks"'],  # a new page is shown at once
        [{"name": "Ada", "size": "Small", "gift": "on", "pay": "card"}],
    ),
    "choose from a list": Task(
        [
            *(go("/form"), use("select", 'combobox "Size"', values=["Large"])),
            *(use("type", 'textbox "Name"', text="Bob", submit=True), SEE),
        ],
        ["Selected Large.", 'heading "Thanks"'],
        [{"name": "Bob", "size": "Large"}],
    ),
    "use a frame in a frame": Task(
        [go("/frames"), click('button "Press"'), SEE], ['button "pressed in a frame"']
    ),
    "use a shadow DOM": Task(
        [
            *(go("/shadow"), use("type", 'textbox "Code"', text="SALE")),
            *(click('button "Apply"'), SEE),
        ],
        ["code SALE"],
    ),
    "answer dialogs": Task(
        [
            *(go("/dialogs"), click('button "Alert"'), click('button "Confirm"'), SEE),
            *(click('button "Confirm"', accept_dialog=True), SEE),
            *(click('button "Prompt"', accept_dialog=True, dialog_text="Ada"), SEE),
        ],
        [
            "(alert) said 'careful' and was accepted",
            "(confirm) said 'sure?' and was dismissed",
            *("confirmed false", "confirmed true", "named Ada"),
        ],
    ),
    "download a file": Task(
        [
            *(go("/"), use("download", 'link "Report"'), call("browser_download")),
            call("read_file", path="downloads/report.csv"),
        ],
        ["Saved downloads/report.csv (8 bytes).", "Nothing was downloaded.", "a,b"],
    ),
    "upload files": Task(
        [
            call("write_file", path="one.txt", content="first"),
            call("write_file", path="two.txt", content="second"),
            *(go("/upload"), use("upload", 'button "Files"', paths=["one.txt", "two.txt"]), SEE),
        ],
        ["first,second"],
    ),
    "read an endless page": Task(
        [go("/endless"), *[call("browser_scroll")] * 6, SEE], ["item 40", "item 90"]
    ),
    "read what a service worker made": Task(
        [go("/worker"), *[call("browser_scroll")] * 3, SEE], ["made by the worker"]
    ),
    "work in a new tab": Task(
        [
            *(go("/"), click('link "Terms"'), call("browser_tabs", action="select", tab=2), SEE),
            *(call("browser_tabs", action="close", tab=2), SEE),
        ],
        ["Tab 2 was opened", "2: Terms", "The terms.", 'heading "Shop"'],
    ),
    "read the console": Task(
        [
            *(go("/console"), click('button "Go"'), call("browser_console", clear=True)),
            call("browser_console"),
        ],
        ["warning: odd", "uncaught: missing is not defined", "Nothing was logged."],
    ),
    "press a key and go back": Task(
        [go("/popup"), go("/keys"), call("browser_press", key="Escape"), SEE, call("browser_back")],
        ["key Escape", "The terms."],
    ),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site() -> AsyncGenerator[BrowserSite]:
    async with browser_site() as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def talk(site: BrowserSite, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Talk]:
    """A client of an agent whose model knows the tasks; all share a browser."""
    folder = tmp_path_factory.mktemp("agent")
    await asyncio.to_thread((folder / "only").mkdir)
    await asyncio.to_thread((folder / "only" / "config.yaml").write_text, json.dumps(CONFIG))
    rules = [
        {"user": name, "steps": [*task.steps, {"text": "done"}]} for name, task in TASKS.items()
    ]
    script = json.loads(json.dumps({"rules": rules}).replace("SITE", site.url))
    async with chromium_executor(folder / "executor") as executor, fake_model(script) as model:
        database = f"sqlite:///{folder}/agent.db"
        place = Site(folder, model.url, database, executor.address, executor.tokens)
        async with AgentProcess(place, "only") as agent, agent.client() as opened:
            yield opened, model


@pytest.mark.parametrize("name", TASKS)
async def test_a_model_does_a_task_on_a_site(name: str, talk: Talk, site: BrowserSite) -> None:
    task, (client, model), site.orders = TASKS[name], talk, []
    events = await client.ask(f"Please {name}.")
    assert not [each.tool_finished for each in events if each.tool_finished.is_error]
    assert answer(events) == "done"
    results = [each["content"] for each in model.bodies[-1]["messages"] if each["role"] == "tool"]
    rest = "\n".join(results[-len(task.steps) :])
    for said in task.says:
        assert said in rest
        rest = rest.partition(said)[2]
    assert site.orders == [*task.orders]
