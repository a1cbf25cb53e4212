"""The real Home Assistant does what the fake of the other tests does."""

import asyncio
from pathlib import Path

import pytest
from pydantic import SecretStr

from gateway_service.errors import AccountRefused, Refused
from gateway_service.messages import Button, ButtonPress, Content, MessageEvent
from gateway_service.platforms.base import NOTHING, Destination, Received
from gateway_service.platforms.homeassistant.config import HomeAssistantConfig
from gateway_service.platforms.homeassistant.events import action_of
from gateway_service.platforms.homeassistant.platform import HomeAssistantPlatform
from tests.fakes.homeassistant import PANEL
from tests.fakes.sink import Collected
from tests.support.real_homeassistant import real_homeassistant

DOOR = {"entity_id": "input_boolean.door"}


class Connected(Collected):
    """Knows when the states at the start have come, and all subscriptions before them."""

    def __init__(self) -> None:
        super().__init__()
        self.is_there = asyncio.Event()

    async def store(self, received: Received = NOTHING) -> None:
        await super().store(received)
        if self.cursor:
            self.is_there.set()


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_changes_words_buttons_and_notifications(tmp_path: Path) -> None:
    async with real_homeassistant(tmp_path) as server:
        config = HomeAssistantConfig(
            token=SecretStr(server.token), url=server.url, watch_domains=("input_boolean",)
        )
        sink = Connected()
        async with HomeAssistantPlatform(config) as platform, asyncio.TaskGroup() as group:
            taking = group.create_task(sink.take(platform, 3))
            await sink.is_there.wait()
            await server.post("/api/services/input_boolean/turn_on", DOOR)
            await server.post("/api/events/hermes_message", {"text": "hello", "chat": "phone"})
            action = {"action": action_of("phone", "a:yes")}
            await server.post("/api/events/mobile_app_notification_action", action)
            changed, said, pressed = await taking
        assert isinstance(changed, MessageEvent)
        assert isinstance(said, MessageEvent)
        assert isinstance(pressed, ButtonPress)
        told = "Front door (input_boolean.door): was off, is on"
        assert [quote.text for quote in changed.quotes] == [told]
        assert (said.text, said.source.chat_id, pressed.data) == ("hello", "phone", "a:yes")
        assert said.source.user_id == pressed.source.user_id != changed.source.user_id

        await server.post("/api/services/input_boolean/turn_off", DOOR)
        async with HomeAssistantPlatform(config) as platform:
            *_, meanwhile = await sink.take(platform, 4)
            for text in ("May I?", "May I now?"):
                asked = Content(text, (Button("Yes", "a:yes"),))
                await platform.send(Destination(PANEL), asked, "key-1")
            with pytest.raises(Refused):
                await platform.send(Destination("mobile_app_nobody"), Content("x"), "key-2")
        assert isinstance(meanwhile, MessageEvent)
        assert meanwhile.quotes[0].text == "Front door (input_boolean.door): is off"
        (shown,) = await server.notifications()
        assert shown["message"] == "May I now?\n- Yes"
        with pytest.raises(AccountRefused):
            async with HomeAssistantPlatform(
                config.model_copy(update={"token": SecretStr("wrong")})
            ):
                pass
