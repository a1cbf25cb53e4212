"""Agents that are killed while a tool's call is on its way: what the world outside sees of it, and
what the model hears from the next agent. Other tests do the same for commands, files, pictures,
messages and MCP servers."""

import asyncio
import json
import signal
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from msgspec import Struct

from tests.fakes.browser_site import browser_site
from tests.fakes.homeassistant import TOKEN, fake_homeassistant
from tests.fakes.honcho import KEY as HONCHO_KEY
from tests.fakes.honcho import FakeHoncho
from tests.fakes.http_server import bind, serving
from tests.fakes.media import KEY, fake_media
from tests.fakes.model import call, fake_model
from tests.integration.agent_parts import answer
from tests.integration.agent_processes import AgentProcess, Site
from tests.integration.browser_parts import CONFIG, chromium_executor
from tests.integration.test_agent_takeover import TELL, UNCERTAIN
from tests.integration.test_agent_web import answers
from tests.support.executors import until
from tests.support.sound import SENTENCES, need_sound, spoken

pytestmark = pytest.mark.timeout(90)

ON: Mapping[str, Any] = {"get_services": {"light": {"turn_on": {}}}}


class Outside(Struct):
    """What a call reaches, and which keeps its answer until it is released."""

    steps: Sequence[Any]
    """The model's; the last makes the call."""
    seen: Callable[[], int]
    """How often the call has come."""
    let_go: Callable[[], None]
    config: Mapping[str, Any] = {}
    variables: Mapping[str, str] = {}


@asynccontextmanager
async def provider(*steps: Any, path: str) -> AsyncGenerator[Outside]:
    """A provider of speech and transcripts."""
    await need_sound()
    async with fake_media() as media:
        media.hold = asyncio.Event()
        yield Outside(
            steps,
            lambda: [at for at, _ in media.asked].count(path),
            media.hold.set,
            variables={"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": media.url("/v1")},
        )


def speech() -> AbstractAsyncContextManager[Outside]:
    return provider(call("text_to_speech", text=SENTENCES[0]), path="/v1/audio/speech")


@asynccontextmanager
async def transcript() -> AsyncGenerator[Outside]:
    write = f"open('a.ogg','wb').write(bytes.fromhex('{(await spoken(SENTENCES[0])).hex()}'))"
    make = call("terminal", command=f'python3 -c "{write}"')
    listen = call("transcribe_audio", audio="a.ogg")
    async with provider(make, listen, path="/v1/audio/transcriptions") as outside:
        yield outside


@asynccontextmanager
async def lamp() -> AsyncGenerator[Outside]:
    """A Home Assistant with a lamp."""
    on = call("ha_call_service", domain="light", service="turn_on", entity_id="light.desk")
    async with fake_homeassistant() as home:
        home.listed |= ON
        home.hold = asyncio.Event()
        await home.change("light.desk", "off")
        variables = {"HASS_TOKEN": TOKEN, "HASS_URL": home.url}
        yield Outside([on], lambda: len(home.called), home.hold.set, variables=variables)


@asynccontextmanager
async def memory() -> AsyncGenerator[Outside]:
    """A Honcho."""
    honcho, held, (listener, url) = FakeHoncho(), asyncio.Event(), bind()

    async def handle(request: web.Request) -> web.StreamResponse:
        answered = await honcho.handle(request)
        if request.path.endswith("/conclusions"):
            await held.wait()
        return answered

    async with serving(listener, handle):
        yield Outside(
            [call("honcho_conclude", conclusion="The user drinks tea.")],
            lambda: len(honcho.conclusions),
            held.set,
            {"memory": {"provider": "honcho", "nudge_interval": 0}},
            {"HONCHO_API_KEY": HONCHO_KEY, "HONCHO_BASE_URL": url},
        )


@asynccontextmanager
async def shop() -> AsyncGenerator[Outside]:
    """A site with a form."""
    async with browser_site() as site:
        site.hold = asyncio.Event()
        fill = call("browser_type", ref='{ref:textbox "Name"}', text="Ada")
        send = call("browser_click", ref='{ref:button "Send"}')
        steps = [call("browser_navigate", url=f"{site.url}/form"), fill, send]
        yield Outside(steps, lambda: len(site.orders), site.hold.set, CONFIG)


@pytest.mark.parametrize(
    ("reach", "times", "told"),
    [
        (speech, 2, "The file is media/speech-"),
        (transcript, 2, SENTENCES[0]),
        (lamp, 1, UNCERTAIN),
        (memory, 1, UNCERTAIN),
        (shop, 1, UNCERTAIN),
    ],
)
async def test_a_call_that_a_kill_interrupts_is_made_again_or_uncertain(
    reach: Callable[[], AbstractAsyncContextManager[Outside]], times: int, told: str, tmp_path: Path
) -> None:
    async with (
        reach() as outside,
        fake_model(answers(*outside.steps, TELL)) as model,
        chromium_executor(tmp_path / "executor") as executor,
    ):
        await asyncio.to_thread(_configure, tmp_path / "only", outside)
        database = f"sqlite:///{tmp_path}/agent.db"
        place = Site(tmp_path, model.url, database, executor.address, executor.tokens)
        async with AgentProcess(place, "only") as first, first.client() as client:
            turn_id = (await client.start("go")).turn_id
            await until(lambda: outside.seen() == 1, 60)
            first.signal(signal.SIGKILL)
            await first.ended()
        outside.let_go()
        async with AgentProcess(place, "only") as second, second.client() as client:
            assert told in answer(await client.watch(turn_id))
        assert outside.seen() == times


def _configure(home: Path, outside: Outside) -> None:
    home.mkdir()
    (home / "config.yaml").write_text(json.dumps(outside.config))
    variables = (f"{name}={value}\n" for name, value in outside.variables.items())
    (home / ".env").write_text("".join(variables))
