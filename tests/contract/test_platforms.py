"""What every implementation of the Platform seam does, over whatever it talks through."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from gateway_service.errors import MessageGone, OutcomeUnknown, RateLimited, Refused, Unreachable
from gateway_service.messages import Button, ButtonPress, Content, MessageEvent
from gateway_service.platforms.base import Destination
from gateway_service.platforms.markup import units
from gateway_service.platforms.telegram import TelegramPlatform
from tests.contract.platforms import IMPLEMENTATIONS, World
from tests.fakes.telegram import TOKEN

CHAT = Destination("5")


@pytest.fixture(params=list(IMPLEMENTATIONS))
async def world(request: pytest.FixtureRequest) -> AsyncGenerator[World]:
    async with IMPLEMENTATIONS[request.param]() as made:
        yield made


async def test_the_account_is_known_before_it_is_connected(world: World) -> None:
    platform = world.connect()
    assert platform.name == platform.name.lower() != ""
    assert platform.account_id
    with pytest.raises(Unreachable):
        await platform.send(CHAT, Content("too early"))
    async with platform:
        assert await platform.send(CHAT, Content("in time"))


async def test_what_is_said_is_received_in_order(world: World) -> None:
    async with world.connect() as platform:
        for text in ("one", "two"):
            await world.say(text)
        received = await platform.receive(0)
        assert [event.text for event in received.events if isinstance(event, MessageEvent)] == [
            "one",
            "two",
        ]
        source = received.events[0].source
        assert (source.platform, source.chat_id, source.chat_type) == (platform.name, "5", "dm")
        assert source.user_id
        assert len({event.event_id for event in received.events}) == 2


async def test_what_was_not_confirmed_comes_again_as_the_same(world: World) -> None:
    async with world.connect() as platform:
        await world.say("one")
        first = await platform.receive(0)
    async with world.connect() as platform:
        assert await platform.receive(0) == first
        await world.say("two")
        second = await platform.receive(first.position)
        assert second.position > first.position
        [event] = second.events
        assert isinstance(event, MessageEvent)
        assert event.text == "two"


async def test_waiting_for_events_can_be_given_up(world: World) -> None:
    async with world.connect() as platform:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await platform.receive(0)
        await world.say("one")
        assert len((await platform.receive(0)).events) == 1


async def test_messages_are_created_and_changed(world: World) -> None:
    buttons = (Button("Yes", "a:yes"), Button("No", "a:no"))
    async with world.connect() as platform:
        first = await platform.send(CHAT, Content("May I?", buttons))
        second = await platform.send(CHAT, Content("Hello."))
        assert world.shown() == {first: ("May I?", ["a:yes", "a:no"]), second: ("Hello.", [])}
        for _ in range(2):
            await platform.edit(CHAT, first, Content("I may."))
        assert world.shown()[first] == ("I may.", [])
        with pytest.raises(MessageGone):
            await platform.edit(CHAT, "999", Content("lost"))


async def test_a_press_is_received_and_acknowledged(world: World) -> None:
    async with world.connect() as platform:
        message_id = await platform.send(CHAT, Content("May I?", (Button("Yes", "a:yes"),)))
        await world.press(message_id, "a:yes")
        [press] = (await platform.receive(0)).events
        assert isinstance(press, ButtonPress)
        assert (press.data, press.source.chat_id) == ("a:yes", "5")
        await platform.acknowledge(press, "Done.")
        await platform.typing(CHAT)


async def test_a_message_may_be_as_long_as_is_said(world: World) -> None:
    async with world.connect() as platform:
        text = "🦉" * (platform.traits.message_units // 2)
        assert units(text) == platform.traits.message_units
        message_id = await platform.send(CHAT, Content(text))
        assert world.shown()[message_id] == (text, [])


async def test_failures_tell_whether_anything_was_done(world: World) -> None:
    async with world.connect() as platform:
        world.fail("limited")
        with pytest.raises(RateLimited) as limited:
            await platform.send(CHAT, Content("one"))
        assert limited.value.wait_s == 1
        world.fail("refused")
        with pytest.raises(Refused):
            await platform.send(CHAT, Content("two"))
        assert world.shown() == {}
        world.fail("lost answer")
        with pytest.raises(OutcomeUnknown):
            await platform.send(CHAT, Content("three"))
        assert [text for text, _ in world.shown().values()] == ["three"]


async def test_a_server_that_is_not_there_is_unreachable() -> None:
    with pytest.raises(Unreachable):
        async with TelegramPlatform(TOKEN, "http://127.0.0.1:9/bot"):
            pass
