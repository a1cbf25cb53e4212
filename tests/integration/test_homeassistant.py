"""Home Assistant: changes of states, words of people, and what goes wrong."""

import asyncio
from collections.abc import AsyncGenerator

import pytest
from pydantic import SecretStr

from gateway_service.errors import AccountRefused, OutcomeUnknown, Refused, Unreachable
from gateway_service.messages import Button, Content, MessageEvent
from gateway_service.platforms.base import NOTHING, Destination, Received
from gateway_service.platforms.homeassistant.config import HomeAssistantConfig
from gateway_service.platforms.homeassistant.platform import HomeAssistantPlatform
from services.runtime.checks import Verdict
from tests.fakes.homeassistant import PANEL, TOKEN, FakeHomeAssistant, fake_homeassistant
from tests.fakes.sink import Collected
from tests.support.platform_checks import checked

DOOR = "binary_sensor.door"


@pytest.fixture
async def home() -> AsyncGenerator[FakeHomeAssistant]:
    async with fake_homeassistant() as running:
        yield running


def config(home: FakeHomeAssistant, **more: object) -> HomeAssistantConfig:
    options = {"token": SecretStr(TOKEN), "url": home.url, "watch_domains": ("binary_sensor",)}
    return HomeAssistantConfig.model_validate({**options, **more})


class Cursors(Collected):
    """Notes each new position: storing it takes time."""

    def __init__(self) -> None:
        super().__init__()
        self.cursors = set[str]()

    async def store(self, received: Received = NOTHING) -> None:
        await super().store(received)
        self.cursors.add(self.cursor)


async def heard(
    platform: HomeAssistantPlatform, count: int, sink: Collected | None = None
) -> list[tuple[str, str]]:
    """What messages say of their own, and quote."""
    events = await (sink or Collected()).take(platform, count)
    messages = [event for event in events if isinstance(event, MessageEvent)]
    return [(it.text, "".join(quote.text for quote in it.quotes)) for it in messages]


async def test_changes_of_watched_entities_are_quoted_once_in_a_while(
    home: FakeHomeAssistant,
) -> None:
    await home.change(DOOR, "off", friendly_name="Door")
    home.waiting += [
        home.change("light.hall", "on"),
        home.change(DOOR, "unavailable"),
        home.change(DOOR, "off"),
        home.change(DOOR, "on"),
        home.change(DOOR, "off"),
        home.change("binary_sensor.window", "on"),
        home.change("binary_sensor.window", "off"),
        home.say("that was all", PANEL),
    ]
    watched, sink = config(home, events_prompt="Tell me."), Cursors()
    async with HomeAssistantPlatform(watched) as platform:
        told = await heard(platform, 3, sink)
    assert len(sink.cursors) == 3, "only messages are stored"
    assert told == [
        ("Tell me.", f"Door ({DOOR}): was off, is on"),
        ("Tell me.", "binary_sensor.window (binary_sensor.window): was on, is off"),
        ("that was all", ""),
    ]


async def test_what_changed_meanwhile_is_one_message(home: FakeHomeAssistant) -> None:
    for entity in (DOOR, "binary_sensor.window", "binary_sensor.gate"):
        await home.change(entity, "off")
    sink = Collected()
    home.waiting.append(home.say("one", PANEL))
    async with HomeAssistantPlatform(config(home)) as platform:
        assert await heard(platform, 1, sink) == [("one", "")]
    await home.change(DOOR, "on")
    await home.change("binary_sensor.window", "on")
    async with HomeAssistantPlatform(config(home)) as platform:
        (_, (_, told)) = await heard(platform, 2, sink)
    assert told.splitlines() == [
        f"{DOOR} ({DOOR}): is on",
        "binary_sensor.window (binary_sensor.window): is on",
    ]


async def test_a_connection_that_ends_is_known_and_made_again(home: FakeHomeAssistant) -> None:
    home.waiting.append(home.cut())
    async with HomeAssistantPlatform(config(home)) as platform:
        with pytest.raises((OutcomeUnknown, Unreachable)):
            await platform.listen(Collected())
        home.waiting.append(home.say("again", PANEL))
        assert await heard(platform, 1) == [("again", "")]


async def test_words_are_typed_into_a_notification(home: FakeHomeAssistant) -> None:
    async with HomeAssistantPlatform(config(home)) as platform:
        shown = await platform.send(Destination("notify.phone"), Content("Which?"), "key-1")
        (action,) = home.shown["phone"][shown].actions
        home.waiting.append(home.press(action, reply_text="the red one"))
        sink = Collected()
        assert await heard(platform, 1, sink) == [("the red one", "")]
        assert (sink.events[0].source.chat_id, sink.events[0].source.user_id) == ("phone", "7")
        assert await platform.send(Destination("phone"), Content("Which?"), "key-1") == shown
        assert home.shown["phone"][shown].versions == 2


async def test_the_panel_has_no_buttons(home: FakeHomeAssistant) -> None:
    async with HomeAssistantPlatform(config(home)) as platform:
        asked = Content("May I?", (Button("Yes", "a:yes"), Button("No", "a:no")))
        await platform.send(Destination(PANEL), asked, "key-1")
        assert home.shown[PANEL]["key-1"].message == "May I?\n- Yes\n- No"
        await platform.send(Destination(PANEL), Content("[SILENT]"), "key-2")
        assert list(home.shown[PANEL]) == ["key-1"]
        for nowhere in ("Phone", "../config", ""):
            with pytest.raises(Refused):
                await platform.send(Destination(nowhere), asked, "key-2")


async def test_what_does_not_work_is_told(home: FakeHomeAssistant) -> None:
    heard_by = config(home, allowed_users=("homeassistant",))
    assert (await checked(heard_by)).verdict is not Verdict.FAILED
    assert "HASS_ALLOWED_USERS" in (await checked(config(home))).message
    with pytest.raises(AccountRefused, match="check HASS_TOKEN"):
        async with HomeAssistantPlatform(config(home, token=SecretStr("wrong"))):
            pass
    with pytest.raises(Unreachable):
        async with HomeAssistantPlatform(config(home, url="http://127.0.0.1:9")):
            pass
    home.is_admin = False
    async with HomeAssistantPlatform(config(home)) as platform:
        with pytest.raises(AccountRefused, match="must be an administrator's"):
            async with asyncio.timeout(5):
                await platform.listen(Collected())
