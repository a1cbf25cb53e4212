"""What every implementation of the Platform seam does, over whatever it talks through."""

import asyncio
from collections.abc import AsyncGenerator
from hashlib import sha256
from pathlib import Path

import pytest

from gateway_service.errors import MessageGone, OutcomeUnknown, RateLimited, Refused, Unreachable
from gateway_service.messages import Attachment, Button, ButtonPress, Content, MessageEvent
from gateway_service.platforms.telegram.platform import TelegramPlatform
from services.errors import DatabaseUnavailable
from tests.contract.platform_world import World
from tests.contract.platforms import IMPLEMENTATIONS
from tests.fakes.sink import Collected, Full, listen
from tests.fakes.telegram import TOKEN


@pytest.fixture(
    params=[
        # A real homeserver takes seconds to start.
        pytest.param(name, marks=[pytest.mark.slow] if name == "matrix" else [])
        for name in IMPLEMENTATIONS
    ]
)
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[World]:
    async with IMPLEMENTATIONS[request.param](tmp_path) as made:
        yield made


async def test_the_account_is_known_before_it_is_connected(world: World) -> None:
    platform = world.connect()
    assert platform.name == platform.name.lower() != ""
    assert platform.account_id
    with pytest.raises(Unreachable):
        await platform.send(world.chat, Content("too early"), "key-1")
    async with platform:
        assert await platform.send(world.chat, Content("in time"), "key-2")


async def test_what_is_said_is_received_in_order(world: World) -> None:
    async with world.connect() as platform:
        for text in ("one", "two"):
            await world.say(text)
        events = await listen(world.cursor, platform, 2)
        texts = [event.text for event in events if isinstance(event, MessageEvent)]
        assert texts == ["one", "two"]
        source = events[0].source
        assert (source.platform, source.chat_id, source.chat_type) == (
            platform.name,
            world.chat.chat_id,
            "dm",
        )
        assert source.user_id
        assert len({event.event_id for event in events}) == 2


async def test_what_was_not_stored_comes_again_as_the_same(world: World) -> None:
    if not world.keeps_events:
        return
    full = Full(world.cursor)
    async with world.connect() as platform:
        await world.say("one")
        with pytest.raises(DatabaseUnavailable):
            await platform.listen(full)
    async with world.connect() as platform:
        assert await listen(world.cursor, platform, 1) == full.events


async def test_what_was_said_meanwhile_is_received_later(world: World) -> None:
    sink = Collected(world.cursor)
    async with world.connect() as platform:
        await world.say("one")
        await sink.take(platform, 1)
    await world.say("two")
    async with world.connect() as platform:
        events = await sink.take(platform, 2)
    ids = {event.event_id: event for event in events}
    texts = [event.text for event in ids.values() if isinstance(event, MessageEvent)]
    assert texts == ["one", "two"]


async def test_waiting_for_events_can_be_given_up(world: World) -> None:
    async with world.connect() as platform:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await platform.listen(Collected(world.cursor))
        await world.until_unheard()
        await world.say("one")
        assert len(await listen(world.cursor, platform, 1)) == 1


async def test_messages_are_created_and_changed(world: World) -> None:
    async with world.connect() as platform:
        buttons = (Button("Yes", "a:yes"), Button("No", "a:no"))[: platform.traits.buttons]
        first = await platform.send(world.chat, Content("May I?", buttons), "key-3")
        second = await platform.send(world.chat, Content("Hello."), "key-4")
        assert await world.shown() == {
            first: ("May I?", [each.data for each in buttons]),
            second: ("Hello.", []),
        }
        if not platform.traits.can_edit:
            with pytest.raises(Refused):
                await platform.edit(world.chat, first, Content("I may."))
            return
        for _ in range(2):
            await platform.edit(world.chat, first, Content("I may."))
        assert (await world.shown())[first] == ("I may.", [])
        with pytest.raises(MessageGone):
            await platform.edit(world.chat, "999", Content("lost"))


async def test_a_press_is_received_and_acknowledged(world: World) -> None:
    async with world.connect() as platform:
        if not platform.traits.buttons:
            return
        asked = Content("May I?", (Button("Yes", "a:yes"),))
        message_id = await platform.send(world.chat, asked, "key-5")
        await world.press(message_id, "a:yes")
        [press] = await listen(world.cursor, platform, 1)
        assert isinstance(press, ButtonPress)
        assert (press.data, press.source.chat_id) == ("a:yes", world.chat.chat_id)
        await platform.acknowledge(press, "Done.")
        await platform.typing(world.chat)


async def test_a_message_may_be_as_long_as_is_said(world: World) -> None:
    async with world.connect() as platform:
        text = "🦉" * (platform.traits.message_units // platform.traits.length("🦉"))
        assert platform.traits.length(text) == platform.traits.message_units
        message_id = await platform.send(world.chat, Content(text), "key-6")
        assert (await world.shown())[message_id] == (text, [])


async def test_files_arrive_whole_under_any_name(world: World) -> None:
    names = ("plan.pdf", 'a "b"; filename=c,d.pdf', "Übersicht 日本.pdf", f"{'x' * 200}.pdf")
    data = b"%PDF" + bytes(range(256)) * 4000
    async with world.connect() as platform:
        if not platform.traits.file_bytes:
            return
        for number, name in enumerate(names):
            file = Attachment(name, len(data), sha256(data).hexdigest(), data)
            await platform.send(world.chat, Content("", attachment=file), f"key-f{number}")
        files = await world.files()
    assert [len(content) for _, content in files] == [len(data)] * len(names)
    assert all(content == data for _, content in files)
    assert not any("/" in name or "\n" in name for name, _ in files)


async def test_failures_tell_whether_anything_was_done(world: World) -> None:
    async with world.connect() as platform:
        world.fail("limited")
        with pytest.raises(RateLimited) as limited:
            await platform.send(world.chat, Content("one"), "key-7")
        assert limited.value.wait_s >= 1
        world.fail("refused")
        with pytest.raises(Refused):
            await platform.send(world.chat, Content("two"), "key-8")
        assert await world.shown() == {}
        world.fail("lost answer")
        with pytest.raises(OutcomeUnknown):
            await platform.send(world.chat, Content("three"), "key-9")
        if platform.traits.repeats_safely_s:
            await platform.send(world.chat, Content("three"), "key-9")
        assert [text for text, _ in (await world.shown()).values()] == ["three"]


async def test_a_server_that_is_not_there_is_unreachable() -> None:
    with pytest.raises(Unreachable):
        async with TelegramPlatform(TOKEN, "http://127.0.0.1:9/bot"):
            pass
