"""Discord over its wire: what was missed, what is ours to answer, and what goes wrong."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway_service.errors import AccountRefused, ChatMoved, HermesError, Refused
from gateway_service.messages import (
    Attachment,
    Button,
    ButtonPress,
    Content,
    Event,
    FileKind,
    MessageEvent,
    Quote,
    Reaction,
)
from gateway_service.platforms.base import Destination
from gateway_service.platforms.discord.config import DiscordConfig
from gateway_service.platforms.discord.platform import DiscordPlatform
from services.runtime.checks import Verdict
from tests.fakes.discord import CHANNEL, ROLE, THREAD, FakeDiscord, fake_discord, user
from tests.fakes.discord_gateway import INVALID, RECONNECT
from tests.fakes.discord_rules import BOT, TOKEN, VOICE, new_id
from tests.fakes.sink import Collected, Full
from tests.support.executors import until
from tests.support.platform_checks import checked

ADA = "7"
ME = f"<@{BOT}>"


@pytest.fixture
async def server() -> AsyncGenerator[FakeDiscord]:
    async with fake_discord() as running:
        yield running


def connect(server: FakeDiscord) -> DiscordPlatform:
    return DiscordPlatform(TOKEN, server.url, people=[ADA])


@asynccontextmanager
async def listening(
    platform: DiscordPlatform, sink: Collected, server: FakeDiscord
) -> AsyncGenerator[None]:
    """Listen again and again, once the bot is connected."""
    async with platform, asyncio.TaskGroup() as group:
        task = group.create_task(sink.listen_on(platform))
        await until(lambda: server.gateway.is_connected)
        yield
        task.cancel()


def texts(events: Sequence[Event]) -> list[str]:
    return [each.text for each in events if isinstance(each, MessageEvent)]


async def test_the_intent_that_is_missing_is_named(server: FakeDiscord) -> None:
    server.gateway.allows_content = False
    async with connect(server) as platform:
        with pytest.raises(AccountRefused, match="Message Content Intent"):
            await platform.listen(Collected())


async def test_in_a_server_only_what_is_addressed_to_the_bot_counts(server: FakeDiscord) -> None:
    sink, platform = Collected(), connect(server)
    async with listening(platform, sink, server):
        mine = await platform.send(Destination(CHANNEL), Content("Hello."), "key-1")
        other = await server.say(CHANNEL, "nobody asked", "8")
        await server.say(CHANNEL, f"{ME} what does <@8> want?")
        await server.say(CHANNEL, f"<@&{ROLE}> by role")
        await server.say(CHANNEL, "hermes by name")
        reply = {"message_id": mine, "channel_id": CHANNEL, "type": 0}
        answered = server.messages[CHANNEL][mine]
        more: dict[str, Any] = {"type": 19, "message_reference": reply}
        more["referenced_message"] = answered
        await server.say(CHANNEL, "by reply", **more)
        quoted = server.messages[CHANNEL][other]
        reply = {"message_id": other, "channel_id": CHANNEL, "type": 0}
        more = {"type": 19, "message_reference": reply, "referenced_message": quoted}
        await server.say(CHANNEL, f"{ME} see this", **more)
        await until(lambda: len(sink.events) == 4)
    assert texts(sink.events) == ["what does @Bob want?", "by role", "by reply", "see this"]
    replied, quoting = sink.events[2:]
    assert isinstance(replied, MessageEvent)
    assert (replied.replies_to, replied.quotes) == (mine, ())
    assert isinstance(quoting, MessageEvent)
    assert quoting.quotes == (Quote("nobody asked", "Bob", is_forwarded=False),)
    place = quoting.source.chat_id, quoting.source.chat_type, quoting.source.chat_name
    assert place == (CHANNEL, "group", f"channel-{CHANNEL}")


async def test_a_thread_belongs_to_its_channel(server: FakeDiscord) -> None:
    sink, platform = Collected(), connect(server)
    async with listening(platform, sink, server):
        await server.say(THREAD, f"{ME} in the thread")
        await until(lambda: sink.events)
        source = sink.events[0].source
        assert (source.chat_id, source.thread_id, source.chat_type) == (CHANNEL, THREAD, "thread")
        assert source.chat_name == f"channel-{CHANNEL}"
        to = Destination(source.chat_id, source.thread_id)
        await platform.send(to, Content("Here."), "key-1")
        server.deleted.add(THREAD)
        message_id = await platform.send(to, Content("…"), "key-2")
        await platform.edit(to, message_id, Content("There."))
        await platform.typing(to)
    assert (server.texts(THREAD), server.texts(CHANNEL)) == (["Here."], ["There."])


async def test_other_bots_and_joining_people_are_ignored(server: FakeDiscord) -> None:
    sink, platform = Collected(), connect(server)
    async with listening(platform, sink, server):
        await server.say("5", "I am a bot", author={**user("9"), "bot": True})
        await server.say("5", "", type=7)
        await server.say("5", "a hook", webhook_id="77")
        await server.say("5", "a person")
        await until(lambda: sink.events)
    assert texts(sink.events) == ["a person"]


async def test_forwarded_words_and_files_are_kept_apart(server: FakeDiscord) -> None:
    sink, platform = Collected(), connect(server)
    server.files["31"] = b"OggS" * 50_000
    snapshot: dict[str, Any] = {
        "content": "forwarded",
        "type": 0,
        "embeds": [],
        "attachments": [],
        "flags": 0,
    }
    snapshot |= {"timestamp": "2026-01-01T00:00:00+00:00", "edited_timestamp": None}
    file = {"id": "31", "filename": "voice-message.ogg", "size": 200_000, "url": ""}
    file |= {"proxy_url": "", "content_type": "audio/ogg", "duration_secs": 2.0, "waveform": ""}
    file["url"] = f"{server.origin}/files/31"
    async with listening(platform, sink, server):
        reference = {"channel_id": "5", "message_id": new_id(), "type": 1}
        forward: dict[str, Any] = {
            "message_reference": reference,
            "message_snapshots": [{"message": snapshot}],
        }
        await server.say("5", "", **forward)
        await server.say("5", "", attachments=[file], flags=VOICE)
        await until(lambda: len(sink.events) == 2)
        forwarded, voice = sink.events
        assert isinstance(forwarded, MessageEvent)
        assert forwarded.quotes == (Quote("forwarded", "", is_forwarded=True),)
        assert isinstance(voice, MessageEvent)
        [remote] = voice.files
        assert (remote.kind, remote.name) == (FileKind.VOICE, "voice-message.ogg")
        assert b"".join([each async for each in platform.download(remote)]) == server.files["31"]
        server.messages["5"].clear()
        with pytest.raises(HermesError):
            [each async for each in platform.download(remote)]


async def test_an_edited_message_says_which_it_replaces(server: FakeDiscord) -> None:
    sink, platform = Collected(), connect(server)
    async with listening(platform, sink, server):
        message_id = await server.say("5", "helo")
        await server.gateway.tell("MESSAGE_UPDATE", server.messages["5"][message_id])  # a preview
        await server.rewrite("5", message_id, "hello")
        await until(lambda: len(sink.events) == 2)
    first, second = sink.events
    assert isinstance(first, MessageEvent)
    assert isinstance(second, MessageEvent)
    assert (first.edits, second.edits, second.text) == ("", message_id, "hello")
    assert first.event_id != second.event_id


async def test_messages_of_a_downtime_are_found_in_every_channel(server: FakeDiscord) -> None:
    sink = Collected()
    async with listening(connect(server), sink, server):
        await server.say("5", "before")
        await until(lambda: sink.cursor)
    for number in range(120):
        await server.say(CHANNEL, f"chatter {number}", "8")
    await server.say(CHANNEL, f"{ME} in the channel")
    await server.say(THREAD, f"{ME} in the thread")
    await server.say("5", "directly")
    server.closed.add(CHANNEL)
    async with listening(connect(server), sink, server):
        await until(lambda: "in the thread" in texts(sink.events))
    server.closed.clear()
    async with listening(connect(server), sink, server):
        await until(lambda: "in the channel" in texts(sink.events))
        await server.say("5", "after")
        await until(lambda: "after" in texts(sink.events))
    found = {each.event_id: each for each in sink.events}
    assert sorted(texts(list(found.values()))) == [
        *("after", "before", "directly", "in the channel", "in the thread")
    ]
    assert json.loads(sink.cursor)["people"] == [ADA]


async def test_old_messages_are_not_answered(server: FakeDiscord) -> None:
    server.messages["5"].clear()
    await server.say("5", "hours ago", age_s=3600)
    sink = Collected()
    async with listening(connect(server), sink, server):
        await server.say("5", "now")
        await until(lambda: sink.events)
    assert texts(sink.events) == ["now"]


async def test_a_broken_connection_is_resumed_without_loss(server: FakeDiscord) -> None:
    sink, platform = Collected(), connect(server)
    async with listening(platform, sink, server):
        await server.say("5", "one")
        await until(lambda: len(sink.events) == 1)
        await server.gateway.drop()
        await server.say("5", "two")
        await until(lambda: server.gateway.resumed == 1)
        await server.gateway.order(RECONNECT)
        await until(lambda: server.gateway.resumed == 2)
        await server.say("5", "three")
        await until(lambda: len(sink.events) == 3)
    assert texts(sink.events) == ["one", "two", "three"]
    assert server.gateway.identified == 1


@pytest.mark.parametrize("how", ["forgotten", "invalid"])
async def test_a_lost_session_is_followed_by_a_new_one(server: FakeDiscord, how: str) -> None:
    sink, platform = Collected(), connect(server)
    async with listening(platform, sink, server):
        await server.say("5", "one")
        await until(lambda: len(sink.events) == 1)
        if how == "forgotten":
            await server.gateway.drop(forget=True)
        else:
            await server.gateway.order(INVALID, data=False)
            server.gateway.sessions.clear()
        await server.say("5", "two")
        await until(lambda: "two" in texts(sink.events), 20)
    assert server.gateway.identified == 2


async def test_what_cannot_be_stored_yet_is_stored_later_in_order(server: FakeDiscord) -> None:
    full, sink, platform = Full(), Collected(), connect(server)
    async with platform:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(_until_full(platform, full))
            await until(lambda: server.gateway.is_connected)
            await server.say("5", "one")
            await server.say("5", "two")
            await task
        async with asyncio.timeout(10):
            await sink.take(platform, 2)
    assert texts(sink.events) == ["one", "two"]
    assert server.gateway.identified == 1


async def _until_full(platform: DiscordPlatform, full: Full) -> None:
    with pytest.raises(HermesError):
        await platform.listen(full)


async def test_events_that_cannot_be_read_are_passed_over(server: FakeDiscord) -> None:
    sink, platform = Collected(), connect(server)
    async with listening(platform, sink, server):
        await server.gateway.tell("MESSAGE_CREATE", {"id": "not a number", "content": 7})
        await server.gateway.tell("MESSAGE_CREATE", {})
        await server.gateway.tell("INTERACTION_CREATE", {"type": 3})
        await server.gateway.tell("NEVER_HEARD_OF", [1])
        await server.say("5", "readable")
        await until(lambda: sink.events)
    assert texts(sink.events) == ["readable"]


async def test_heartbeats_show_that_the_account_is_alive(server: FakeDiscord) -> None:
    server.gateway.interval_s = 0.05
    sink, platform = Collected(), connect(server)
    async with listening(platform, sink, server):
        before = sink.stored
        await until(lambda: sink.stored > before + 3)
        server.gateway.is_deaf = True
        silent = sink.stored
        await asyncio.sleep(0.3)
        assert sink.stored <= silent + 1


async def test_buttons_and_slash_commands_are_answered_once_stored(server: FakeDiscord) -> None:
    sink, platform = Collected(), connect(server)
    async with listening(platform, sink, server):
        await platform.offer((("status", "d" * 200), ("new", "Begin anew")))
        assert await platform.menu() == (("status", "d" * 100), ("new", "Begin anew"))
        to, buttons = Destination(CHANNEL), (Button("L" * 90, "a:yes"),)
        message_id = await platform.send(to, Content("May I?", buttons), "key-1")
        await server.press(CHANNEL, message_id, "a:yes", "8")
        await server.command(CHANNEL, "status")
        await server.command("5", "new", "a title")
        await until(lambda: len(sink.events) == 3)
        press, status, new = sink.events
        assert isinstance(press, ButtonPress)
        assert (press.data, press.source.user_id) == ("a:yes", "8")
        assert texts([status, new]) == ["/status", "/new a title"]
        assert (status.source.chat_type, new.source.chat_type) == ("group", "dm")
        await until(lambda: all("answer" in each for each in server.interactions.values()))
        await platform.acknowledge(press, "Done.")
    pressed, asked, _ = server.interactions.values()
    assert (pressed["answer"]["type"], pressed["told"]) == (6, ["Done."])
    assert asked["answer"] == {"type": 4, "data": {"content": "/status", "flags": 64}}
    assert len(server.chats[CHANNEL][message_id].labels[0]) == 80


async def test_thumbs_on_our_messages_are_received(server: FakeDiscord) -> None:
    sink, platform = Collected(), connect(server)
    async with listening(platform, sink, server):
        place = Destination(CHANNEL, THREAD)
        mine = await platform.send(place, Content("May I?"), "key-1")
        other = await server.say(THREAD, "not the bot's", "8")
        for message_id, emoji in ((other, "👍"), (mine, "🎉"), (mine, "👎🏽")):
            await server.react(THREAD, message_id, emoji)
        direct = await platform.send(Destination("5"), Content("May I?"), "key-2")
        await server.react("5", direct, "👍")
        await until(lambda: len(sink.events) == 2)
    first, second = sink.events
    assert isinstance(first, Reaction)
    assert (first.message_id, first.emoji, first.source.user_id) == (mine, "👎🏽", "7")
    assert (first.source.chat_id, first.source.thread_id) == (CHANNEL, THREAD)
    assert isinstance(second, Reaction)
    assert (second.source.chat_id, second.source.chat_type) == ("5", "dm")


async def test_a_file_is_sent_with_its_caption(server: FakeDiscord) -> None:
    file = Attachment("plan.pdf", 3, "0", b"pdf")
    async with connect(server) as platform:
        message_id = await platform.send(Destination("5"), Content("See.", (), file), "key-1")
    shown = server.chats["5"][message_id]
    assert (shown.text, shown.files) == ("See.", [("plan.pdf", b"pdf")])


async def test_a_person_is_another_name_of_a_direct_chat(server: FakeDiscord) -> None:
    async with connect(server) as platform:
        with pytest.raises(ChatMoved) as moved:
            await platform.send(Destination("7"), Content("hello"), "key-1")
    assert moved.value.new_chat_id == "5"


@pytest.mark.parametrize("chat_id", ["4", "general"])
async def test_a_chat_that_is_not_there_is_refused(server: FakeDiscord, chat_id: str) -> None:
    async with connect(server) as platform:
        with pytest.raises(Refused):
            await platform.send(Destination(chat_id), Content("a"), "key-1")


async def test_the_check_names_what_is_wrong(server: FakeDiscord) -> None:
    config = DiscordConfig.model_validate({"token": TOKEN, "base_url": server.url})
    assert (await checked(config)).verdict is not Verdict.FAILED
    server.flags = 0
    assert "Message Content Intent" in (await checked(config)).message
    server.token = "another"
    assert "DISCORD_BOT_TOKEN" in (await checked(config)).message
