"""Mattermost over its wire: what was missed, what is ours to answer, and what goes wrong."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from urllib.parse import urlencode

import pytest

from gateway_service.errors import AccountRefused, ChatMoved, HermesError, MessageGone, Refused
from gateway_service.messages import Attachment, Content, Event, FileKind, MessageEvent, Reaction
from gateway_service.platforms.base import Destination, HasWebhook, WebhookRequest, WebhookResult
from gateway_service.platforms.mattermost.config import MattermostConfig
from gateway_service.platforms.mattermost.platform import MattermostPlatform
from gateway_service.platforms.mattermost.webhook import make_mattermost
from services.runtime.checks import Verdict
from tests.fakes.mattermost import FakeMattermost, fake_mattermost
from tests.fakes.mattermost_rules import BOT, CHANNEL, TOKEN
from tests.fakes.sink import Collected
from tests.support.executors import until
from tests.support.platform_checks import checked


@pytest.fixture
async def server() -> AsyncGenerator[FakeMattermost]:
    async with fake_mattermost() as running:
        yield running


def connect(server: FakeMattermost) -> MattermostPlatform:
    return MattermostPlatform(server.url, TOKEN)


@asynccontextmanager
async def listening(
    platform: MattermostPlatform, sink: Collected, server: FakeMattermost
) -> AsyncGenerator[None]:
    """Listen again and again, once the bot is connected."""
    async with platform, asyncio.TaskGroup() as group:
        task = group.create_task(sink.listen_on(platform))
        await until(lambda: server.sockets)
        yield
        task.cancel()


def texts(events: Sequence[Event]) -> list[str]:
    return [each.text for each in events if isinstance(each, MessageEvent)]


async def test_a_refused_token_is_named(server: FakeMattermost) -> None:
    server.token = "another"
    with pytest.raises(AccountRefused, match="MATTERMOST_TOKEN"):
        async with connect(server):
            pass
    config = MattermostConfig.model_validate({"token": TOKEN, "url": server.url})
    assert "MATTERMOST_TOKEN" in (await checked(config)).message
    server.token = TOKEN
    assert (await checked(config)).verdict is not Verdict.FAILED


async def test_in_a_channel_only_what_is_addressed_to_the_bot_counts(
    server: FakeMattermost,
) -> None:
    sink, platform = Collected(), connect(server)
    async with listening(platform, sink, server):
        mine = await platform.send(Destination(CHANNEL), Content("Hello."), "key-1")
        other = await server.say(CHANNEL, "nobody asked", "8")
        await server.say(CHANNEL, "in another's thread", "8", root_id=other)
        await server.say(CHANNEL, "mail me@hermes.example or @hermes2 or @hermes.bot")
        await server.say(CHANNEL, "what is this, @Hermes?")
        await server.say(CHANNEL, "in your thread", root_id=mine)
        await server.say(CHANNEL, "@hermes I am a bot", "9")
        await server.say(CHANNEL, "@hermes was added", type="system_add_to_channel")
        await server.say(CHANNEL, "@hermes by a hook", props={"from_webhook": "true"})
        await server.say(CHANNEL, "@hermes here too", root_id=other)
        await until(lambda: len(sink.events) == 3)
    assert texts(sink.events) == ["what is this, ?", "in your thread", "here too"]
    plain, threaded, _ = sink.events
    assert (plain.source.chat_type, plain.source.thread_id) == ("group", "")
    assert plain.source.chat_name == f"name-of-{CHANNEL}"
    assert (threaded.source.chat_type, threaded.source.thread_id) == ("thread", mine)
    assert (threaded.source.user_id, threaded.source.user_name) == ("7", "ada")


async def test_answers_stay_in_a_thread_while_it_is_there(server: FakeMattermost) -> None:
    root = await server.say(CHANNEL, "@hermes")
    async with connect(server) as platform:
        to = Destination(CHANNEL, root)
        await platform.send(to, Content("Here."), "key-1")
        server.posts[root]["delete_at"] = 1
        await platform.send(to, Content("There."), "key-2")
        with pytest.raises(Refused):
            await platform.send(Destination("nowhere"), Content("a"), "key-3")
    assert [post["root_id"] for post in server.shown(CHANNEL)] == [root, ""]


async def test_files_go_both_ways(server: FakeMattermost) -> None:
    sink, platform = Collected(), connect(server)
    server.files["f1"] = ("photo.png", b"png" * 50_000)
    about = {"id": "f1", "name": "photo.png", "mime_type": "image/png", "size": 150_000}
    async with listening(platform, sink, server):
        await server.say("5", "", metadata={"files": [about]})
        await until(lambda: sink.events)
        [event] = sink.events
        assert isinstance(event, MessageEvent)
        [file] = event.files
        assert (file.kind, file.name, file.length_bytes) == (FileKind.IMAGE, "photo.png", 150_000)
        assert b"".join([each async for each in platform.download(file)]) == server.files["f1"][1]
        plan = Attachment("plan.pdf", 3, "0", b"pdf")
        await platform.send(Destination("5"), Content("See.", (), plan), "key-1")
    [post] = server.shown("5")
    assert post["message"] == "See."
    assert server.files[post["metadata"]["files"][0]["id"]] == ("plan.pdf", b"pdf")


async def test_an_edited_post_says_which_it_replaces(server: FakeMattermost) -> None:
    sink, platform = Collected(), connect(server)
    async with listening(platform, sink, server):
        post_id = await server.say("5", "helo")
        await server.rewrite(post_id, "hello")
        await until(lambda: len(sink.events) == 2)
    first, second = sink.events
    assert isinstance(first, MessageEvent)
    assert isinstance(second, MessageEvent)
    assert (first.edits, second.edits, second.text) == ("", post_id, "hello")
    assert first.event_id != second.event_id


async def test_posts_of_a_downtime_are_found_in_every_channel(server: FakeMattermost) -> None:
    await server.say("5", "hours ago", age_s=3600)
    sink = Collected()
    async with listening(connect(server), sink, server):
        await server.say("5", "before")
        await until(lambda: sink.cursor)
    await server.say(CHANNEL, "chatter", "8")
    await server.say(CHANNEL, "@hermes in the channel")
    edited = await server.say("5", "drectly")
    await server.rewrite(edited, "directly")
    server.channels["hidden"] = "P"
    await server.say("hidden", "@hermes behind a door")
    server.closed.add("hidden")
    async with listening(connect(server), sink, server):
        await until(lambda: "directly" in texts(sink.events))
    found = {each.event_id: each for each in sink.events}
    assert texts(list(found.values())) == ["before", "in the channel", "directly"]


@pytest.mark.parametrize("how", ["closed", "left out", "unreadable"])
async def test_nothing_is_lost_if_the_stream_fails(server: FakeMattermost, how: str) -> None:
    sink, platform = Collected(), connect(server)
    async with listening(platform, sink, server):
        await server.say("5", "one")
        if how == "closed":
            for stream in list(server.sockets):
                await stream.close()
        elif how == "left out":
            server.lost = 1
        else:
            await server.tell("posted", {"post": "{"})
        await server.say("5", "two")
        await server.tell("typing", {})
        await until(lambda: "two" in texts(sink.events))
    found = {each.event_id: each for each in sink.events}
    assert texts(list(found.values())) == ["one", "two"]


async def test_pings_show_that_the_account_is_alive(server: FakeMattermost) -> None:
    sink, platform = Collected(), MattermostPlatform(server.url, TOKEN, ping_s=0.05)
    async with listening(platform, sink, server):
        await until(lambda: sink.stored > 3)
    sink, platform = Collected(), connect(server)
    async with listening(platform, sink, server):
        for number in range(5):
            await server.tell("typing", {})
            await until(lambda number=number: sink.stored > number)
    sink, platform = Collected(), MattermostPlatform(server.url, TOKEN, ping_s=0.05)
    server.is_deaf = True
    async with platform:
        with pytest.raises(HermesError, match="does not answer"):
            await platform.listen(sink)


async def test_thumbs_on_our_posts_are_received(server: FakeMattermost) -> None:
    sink, platform = Collected(), connect(server)
    async with listening(platform, sink, server):
        root = await server.say(CHANNEL, "not the bot's", "8")
        mine = await platform.send(Destination(CHANNEL, root), Content("May I?"), "key-1")
        for post_id, emoji in ((root, "+1"), (mine, "tada"), (mine, "-1_dark_skin_tone")):
            await server.react(post_id, emoji)
        await server.react(mine, "+1", BOT)
        await server.tell("reaction_added", {})
        await server.react(mine, "thumbsup")
        await until(lambda: len(sink.events) == 2)
    down, up = sink.events
    assert isinstance(down, Reaction)
    assert isinstance(up, Reaction)
    assert (down.message_id, down.emoji, up.emoji) == (mine, "👎", "👍")
    assert (up.source.chat_id, up.source.thread_id, up.source.user_id) == (CHANNEL, root, "7")


async def test_a_person_is_another_name_of_a_direct_chat(server: FakeMattermost) -> None:
    async with connect(server) as platform:
        with pytest.raises(ChatMoved) as moved:
            await platform.send(Destination("7"), Content("hello"), "key-1")
        assert moved.value.new_chat_id == "5"
        with pytest.raises(Refused, match="permissions"):
            await platform.send(Destination("nowhere"), Content("hello"), "key-1")


async def test_a_slash_command_is_a_command(server: FakeMattermost) -> None:
    config = MattermostConfig.model_validate(
        {"token": TOKEN, "url": server.url, "command_token": "secret"}
    )
    platform = make_mattermost(config)
    assert isinstance(platform, HasWebhook)
    said = {"channel_id": "5", "channel_name": f"{'a' * 26}__{'b' * 26}", "trigger_id": "t" * 300}
    said |= {"user_id": "7", "user_name": "ada", "command": "/hermes", "text": "new A trip"}
    signed = {"authorization": "Token secret"}

    async def call(headers: dict[str, str], **fields: str) -> WebhookResult:
        body = urlencode({**said, **fields}).encode()
        return await platform.webhook(WebhookRequest("POST", "/", {}, headers, body))

    answer = await call(signed)
    [event] = answer.received.events
    assert isinstance(event, MessageEvent)
    assert (event.text, event.source.chat_type, event.source.user_id) == ("/new A trip", "dm", "7")
    assert json.loads(answer.body) == {"response_type": "ephemeral", "text": "/new A trip"}
    assert (await call(signed)).received.events[0].event_id == event.event_id
    [event] = (await call(signed, channel_name="town__square", text="")).received.events
    assert isinstance(event, MessageEvent)
    assert (event.text, event.source.chat_type) == ("/help", "group")
    for headers in ({}, {"authorization": "Token wrong"}, {"authorization": "secret\udcff"}):
        assert (await call(headers)).status == 401
    for body in (b"", b"\xff", b"text=hello"):
        odd = await platform.webhook(WebhookRequest("POST", "/", {}, signed, body))
        assert (odd.status, odd.received.is_empty) == (400, True)


async def test_nobody_is_notified_whom_the_text_does_not_name(server: FakeMattermost) -> None:
    async with connect(server) as platform:
        post_id = await platform.send(Destination("5"), Content("@all @ada @Channel."), "key-1")
        assert server.texts("5") == ["@\u200ball @ada @\u200bChannel."]
        await platform.edit(Destination("5"), post_id, Content("@here!"))
        assert server.texts("5") == ["@\u200bhere!"]
        with pytest.raises(MessageGone):
            await platform.edit(Destination("5"), "gone", Content("a"))
        await platform.typing(Destination("5"))
    assert server.typed == {"5": 1}
    assert server.posts[post_id]["user_id"] == BOT
