"""Performs the dialogues of the pages; `python -m tests.e2e.dialogue_stage` writes them."""

import asyncio
import base64
import json
import re
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web
from msgspec import Struct

from tests.e2e.backends import sandboxed
from tests.e2e.deployment import beside, one_process, running
from tests.e2e.dialogues import DIALOGUES, OTHERS, PREPARE, Dialogue
from tests.e2e.home import REPOSITORY, Home
from tests.e2e.model import Json, calls, rule, tool_call
from tests.e2e.terminal import CTRL_D, terminal
from tests.fakes import homeassistant, media
from tests.fakes.homeassistant import FakeHomeAssistant, fake_homeassistant
from tests.fakes.honcho import KEY, FakeHoncho
from tests.fakes.http_server import bind, serving
from tests.fakes.media import fake_media, picture
from tests.fakes.model import FakeModel, fake_model
from tests.fakes.telegram import TOKEN, FakeTelegram, fake_telegram
from tests.fakes.web import site
from tests.support.markdown import page
from tests.support.skills import document, put_skill
from tests.support.sound import spoken

PAGES = (REPOSITORY / "docs/tools.md", REPOSITORY / "docs/research.md")
NOTE = "dialogue: "
"""Begins the comment above a dialogue; the tool's name follows."""
_PLACE = re.compile(r"<!-- dialogue: (\w+) -->\n\n```text\n.*?^```\n", re.M | re.S)
_SECONDS = re.compile(r"( ·)? \d+\.\d s$", re.M)
PROMPT, QUESTION = r"^>$", r"^(answer|allow\?.*) >"
SHOWN_HOST = "otters.example"
"""What the page calls the site."""
PAGE_TEXT = (
    "<html><head><title>Otters</title></head><body><article><h1>Sea otters</h1>"
    "<p>Sea otters eat sea urchins and clams, which they open with stones that they carry along "
    "in a pouch below the arm.</p></article></body></html>"
)
HIT = {"title": "The Otter Society", "url": f"http://{SHOWN_HOST}/", "content": "About sea otters"}


class Stage(Struct, frozen=True):
    """Where dialogues are performed."""

    home: Home
    model: FakeModel
    telegram: FakeTelegram
    host: str
    """Where the site is."""

    def perform(self, dialogue: Dialogue) -> str:
        """Speak, and return what the terminal shows; what it answers must be proved."""
        begun = len(self.model.bodies)
        said = dialogue.said.replace(SHOWN_HOST, self.host)
        shown = self._chosen(dialogue) if dialogue.choice else self._asked(said)
        results = "\n".join(
            str(message["content"])
            for body in self.model.bodies[begun:]
            for message in _last_turn(body["messages"])
            if message["role"] == "tool"
        )
        assert dialogue.proof in results, f"{dialogue.tool}: {results}"
        return f"> {dialogue.said}\n{shown.replace(self.host, SHOWN_HOST)}\n"

    def prepare(self) -> None:
        """Have a conversation that another one looks for, and make files in the other."""
        self.home.ask("We call the boat Otter.")
        self.home.ask("Prepare the files.")

    def clear(self) -> None:
        """End the sandboxes, where a command in the background still runs."""
        for box in self.home.run("sandboxes", "list", "--json").json:
            ended = self.home.run("sandboxes", "kill", box["sandbox_id"], "--yes")
            assert ended.status == 0, ended.err

    def _asked(self, said: str) -> str:
        with terminal(self.home, "chat", "--continue", "-q", said) as asking:
            status = asking.wait_end()
            assert status == 0, asking.screen
            return asking.screen

    def _chosen(self, dialogue: Dialogue) -> str:
        with terminal(self.home, "chat", "--continue") as chat:
            chat.wait_for(PROMPT)
            chat.type(dialogue.said)
            chat.wait_for(QUESTION)
            chat.type(dialogue.choice)
            screen = chat.wait_for(f"^{re.escape(dialogue.answer)}$")
            chat.press(CTRL_D)
            chat.wait_end()
        begin = screen.rindex("▸ ", 0, screen.rindex(f"\n{dialogue.answer}"))
        return screen[begin : screen.rindex(dialogue.answer)] + dialogue.answer


@asynccontextmanager
async def stage(folder: Path) -> AsyncGenerator[Stage]:
    """Hermes with all that the dialogues need, for the time of the block."""
    async with AsyncExitStack() as stack:
        pages = await stack.enter_async_context(site(_serve))
        host = f"127.0.0.1:{pages.port}"
        memo = await spoken("the garden is yellow again")
        model = await stack.enter_async_context(fake_model({"rules": _rules(host, memo)}))
        telegram = await stack.enter_async_context(fake_telegram())
        provider = await stack.enter_async_context(fake_media())
        house = await stack.enter_async_context(fake_homeassistant())
        await _furnish(house)
        listener, honcho_url = bind()
        honcho = FakeHoncho(answer="They like strong black tea.")
        await stack.enter_async_context(serving(listener, honcho.handle))
        variables = {
            "TELEGRAM_BOT_TOKEN": TOKEN,
            "TELEGRAM_BASE_URL": telegram.url,
            "TELEGRAM_ALLOWED_USERS": "7",
            "TELEGRAM_HOME_CHANNEL": "7",
            "HONCHO_API_KEY": KEY,
            "HONCHO_BASE_URL": honcho_url,
            "SEARXNG_URL": f"http://{host}",
            "OPENAI_API_KEY": media.KEY,
            "OPENAI_BASE_URL": provider.url("/v1"),
            "HASS_TOKEN": homeassistant.TOKEN,
            "HASS_URL": house.url,
        }
        made = await asyncio.to_thread(
            lambda: one_process(folder, model.url, _config(pages.port), **variables)
        )
        skills = made.client.path / "skills"
        await asyncio.to_thread(put_skill, skills, "meeting-notes", document("meeting-notes"))
        up = await stack.enter_async_context(beside(running(made)))
        performing = Stage(up.client, model, telegram, host)
        yield performing
        await asyncio.to_thread(performing.clear)


async def performances(folder: Path) -> Mapping[str, str]:
    """All dialogues as they are shown, by tool."""
    async with stage(folder) as on:
        await asyncio.to_thread(on.prepare)
        shown = {each.tool: await asyncio.to_thread(on.perform, each) for each in DIALOGUES}
        assert "I am late." in on.telegram.texts(7)
        return shown


def written(text: str, shown: Mapping[str, str]) -> str:
    """A page with its dialogues as they were performed."""
    return _PLACE.sub(
        lambda found: f"<!-- {NOTE}{found[1]} -->\n\n```text\n{shown[found[1]]}```\n", text
    )


def documented() -> Mapping[str, str]:
    """The dialogues of the pages, by tool."""
    blocks = [block for path in PAGES for block in page(path).blocks("text")]
    return {each.note.removeprefix(NOTE): each.text for each in blocks if NOTE in each.note}


def without_times(text: str) -> str:
    """A dialogue without what differs each time."""
    return _SECONDS.sub("", text)


def _last_turn(messages: Sequence[Json]) -> Sequence[Json]:
    roles = [message["role"] for message in messages]
    return messages[len(roles) - roles[::-1].index("user") :]


def _rules(host: str, memo: bytes) -> Sequence[Json]:
    command = PREPARE.format(
        sign=base64.b64encode(picture(255)).decode(), memo=base64.b64encode(memo).decode()
    )
    preparation = calls(tool_call("terminal", command=command))
    rules = [*OTHERS, rule("Prepare the files", preparation, {"text": "Done."})]
    for each in DIALOGUES:
        said = re.escape(each.said.replace(SHOWN_HOST, host))
        steps = json.loads(json.dumps(each.steps).replace(SHOWN_HOST, host))
        rules.append(rule(said, *steps, {"text": each.answer}))
    return rules


def _config(port: int) -> dict[str, Any]:
    return {
        **sandboxed("bubblewrap"),
        "security": {"allow_private_networks": ["127.0.0.1/32"], "allow_ports": [port]},
        "mixture": {"reference_models": ["one", "two"], "aggregator_model": "judge"},
        "memory": {"provider": "honcho", "nudge_interval": 0},
        "skills": {"creation_nudge_interval": 0},
        "tools": {"rl": True},
    }


async def _furnish(house: FakeHomeAssistant) -> None:
    fields = {"brightness_pct": {"description": "Brightness.", "example": 47}}
    house.listed["get_services"] = {
        "light": {"turn_on": {"fields": fields, "target": {}}},
        "lock": {"lock": {"fields": {}, "target": {}}},
    }
    house.listed["config/area_registry/list"] = [{"area_id": "a1", "name": "Hall"}]
    house.listed["config/entity_registry/list"] = [
        {"entity_id": "lock.front_door", "area_id": "a1", "device_id": None}
    ]
    await house.change("binary_sensor.kitchen", "on", friendly_name="Kitchen window")
    heating = {"current_temperature": 19.5, "temperature": 21}
    await house.change("climate.bedroom", "heat", friendly_name="Bedroom", **heating)
    await house.change("lock.front_door", "unlocked", friendly_name="Front door")


async def _serve(request: web.Request) -> web.StreamResponse:
    if request.path == "/search":
        return web.json_response({"results": [HIT]})
    return web.Response(text=PAGE_TEXT, content_type="text/html")


def _write() -> None:
    with tempfile.TemporaryDirectory() as folder:
        shown = asyncio.run(performances(Path(folder)))
    for path in PAGES:
        path.write_text(written(path.read_text(encoding="utf-8"), shown), encoding="utf-8")


if __name__ == "__main__":
    _write()
