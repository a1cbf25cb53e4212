"""What Slack's platform does beyond the seam, in a workspace at the wire."""

import asyncio
from datetime import UTC, datetime
from itertools import pairwise

import pytest

from gateway_service.errors import RateLimited, Unreachable
from gateway_service.messages import Content, FileKind, MessageEvent, Quote, RemoteFile, Source
from gateway_service.platforms.base import Destination
from gateway_service.platforms.slack.platform import SlackPlatform
from gateway_service.platforms.slack.webhook import make_slack
from tests.fakes.clock import ManualClock
from tests.fakes.sink import Collected, Full
from tests.fakes.slack import FakeSlack, config_of

CHANNEL = Destination("C1")


async def message(app: SlackPlatform, count: int = 1) -> MessageEvent:
    """The last of so many messages that are heard."""
    event = (await Collected().take(app, count))[-1]
    assert isinstance(event, MessageEvent)
    return event


async def test_a_direct_message_tells_who_wrote_what(slack: FakeSlack, app: SlackPlatform) -> None:
    ts = await slack.say(
        "D1", "see <https://x.y/a?b&amp;c|the page> &lt;now&gt;, <@U9> in <#C2|> or <#C3|x>"
    )
    said = "see [the page](https://x.y/a?b&c) <now>, @Eve in #random or #x"
    assert await message(app) == MessageEvent(
        f"D1:{ts}", Source("slack", "D1", "", "U7", "Ada"), said, message_id=ts
    )


async def test_in_a_channel_those_who_mention_us_are_answered_in_a_thread(
    slack: FakeSlack, app: SlackPlatform
) -> None:
    await slack.say("C1", "nobody is asked")
    ts = await slack.say("C1", "<@UBOT> hello")
    await slack.say("C1", "and then?", "U9", thread_ts=ts, parent_user_id="U7")
    first, second = await Collected().take(app, 2)
    assert isinstance(first, MessageEvent)
    assert isinstance(second, MessageEvent)
    assert (first.text, second.text) == ("hello", "and then?")
    assert first.source == Source("slack", "C1", ts, "U7", "Ada", "thread", chat_name="ops")
    assert second.source == Source("slack", "C1", ts, "U9", "Eve", "thread", chat_name="ops")
    assert slack.calls["conversations.replies"] == 0


async def test_threads_of_others_are_not_ours_until_we_are_mentioned(
    slack: FakeSlack, app: SlackPlatform
) -> None:
    root = await slack.say("C1", "the build broke")
    await slack.say("C1", "failed: make", "", thread_ts=root, bot_id="B7")
    for text in ("who knows why?", "not me", "<@UBOT> do you?"):
        await slack.say("C1", text, "U9", thread_ts=root, parent_user_id="U7")
    event = await message(app)
    assert (event.text, event.source.thread_id) == ("do you?", root)
    assert event.quotes == (
        Quote("the build broke", "Ada", is_forwarded=False),
        Quote("failed: make", "", is_forwarded=False),
        Quote("who knows why?", "Eve", is_forwarded=False),
        Quote("not me", "Eve", is_forwarded=False),
    )
    assert slack.calls["conversations.replies"] == 2
    assert slack.calls["users.info"] == 2


async def test_threads_are_known_after_a_restart(slack: FakeSlack, app: SlackPlatform) -> None:
    root = await slack.say("C1", "<@UBOT> hello")
    await app.send(Destination("C1", root), Content("hi"), "key")
    assert (await message(app)).text == "hello"
    await slack.say("C1", "and then?", thread_ts=root, parent_user_id="U7")
    own = await app.send(CHANNEL, Content("Good morning"), "key")
    await slack.say("C1", "to you too", thread_ts=own, parent_user_id="UBOT")
    async with make_slack(config_of(slack)) as again:
        event = await message(again, 2)
    assert event.text == "to you too"


async def test_answers_stay_in_the_channel_where_that_is_configured(slack: FakeSlack) -> None:
    async with make_slack(config_of(slack, reply_in_thread=False)) as app:
        await slack.say("C1", "<@UBOT> hello")
        place = Source("slack", "C1", "", "U7", "Ada", "channel", chat_name="ops")
        assert (await message(app)).source == place


async def test_machines_and_notices_are_not_heard(slack: FakeSlack, app: SlackPlatform) -> None:
    await slack.say("D1", "I am a bot", bot_id="B2")
    await slack.say("D1", "I am you", "UBOT")
    await slack.say("D1", "<@U9> has joined", subtype="channel_join")
    await slack.event({"type": "message", "channel": {"odd": 1}, "text": [], "ts": "1.2"})
    await slack.event({"type": "reaction_added", "user": "U7", "item": {}, "reaction": "eyes"})
    await slack.say("D1", "hello")
    assert (await message(app)).text == "hello"


async def test_a_mention_that_comes_as_two_events_is_one(
    slack: FakeSlack, app: SlackPlatform
) -> None:
    ts = await slack.say("C1", "<@UBOT> hello")
    mention = {"type": "app_mention", "user": "U7", "text": "<@UBOT> hello", "ts": ts}
    await slack.event({**mention, "channel": "C1"})
    first, second = await Collected().take(app, 2)
    assert first == second


async def test_changed_messages_name_what_they_change(slack: FakeSlack, app: SlackPlatform) -> None:
    ts = await slack.say("D1", "helo")
    before = {"type": "message", "user": "U7", "text": "helo", "ts": ts}
    shown = {"type": "message", "subtype": "message_changed", "channel": "D1", "channel_type": "im"}
    unfurled = {**before, "attachments": [{"text": "a page"}]}
    await slack.event({**shown, "message": unfurled, "previous_message": before, "ts": "1.1"})
    changed = {**before, "text": "hello", "edited": {"user": "U7", "ts": "9.9"}}
    await slack.event({**shown, "message": changed, "previous_message": before, "ts": "1.2"})
    event = await message(app, 2)
    assert (event.text, event.edits, event.event_id) == ("hello", ts, f"D1:{ts}:9.9")


async def test_a_mention_that_is_added_later_is_a_new_message(
    slack: FakeSlack, app: SlackPlatform
) -> None:
    said = {"type": "message", "user": "U7", "ts": await slack.say("C1", "do it")}
    texts = ("do it", "do it now", "<@UBOT> do it now", "<@UBOT> do it")
    for number, (before, after) in enumerate(pairwise(texts)):
        changed = {**said, "text": after, "edited": {"user": "U7", "ts": f"9.{number}"}}
        shown = {"message": changed, "previous_message": {**said, "text": before}}
        event = {"type": "message", "subtype": "message_changed", "channel": "C1", "ts": "8.8"}
        await slack.event({**event, "channel_type": "channel", **shown})
    first, second = await Collected().take(app, 2)
    assert isinstance(first, MessageEvent)
    assert isinstance(second, MessageEvent)
    assert (first.text, first.event_id, first.edits) == ("do it now", f"C1:{said['ts']}", "")
    assert (second.text, second.edits) == ("do it", said["ts"])
    assert second.source == first.source


async def test_files_and_forwards_come_with_the_message(
    slack: FakeSlack, app: SlackPlatform
) -> None:
    files = [
        {"id": "F1", "name": "a.png", "mimetype": "image/png", "size": 3, "mode": "hosted"},
        {"id": "F2", "name": None, "mimetype": "audio/webm", "subtype": "slack_audio"},
        {"id": "F3", "mode": "tombstone"},
    ]
    shares = [
        {"is_share": True, "text": "/stop &amp; go", "author_name": "Eve", "fields": None},
        {"text": "what a link shows"},
    ]
    await slack.say("D1", "look", subtype="file_share", files=files, attachments=shares)
    event = await message(app)
    assert event.quotes == (Quote("/stop & go", "Eve", is_forwarded=True),)
    assert event.files == (
        RemoteFile(FileKind.IMAGE, "F1", "a.png", "image/png", 3),
        RemoteFile(FileKind.VOICE, "F2", "", "audio/webm"),
        RemoteFile(FileKind.DOCUMENT, "F3"),
    )


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("/hermes", "new", "/new"),
        ("/hermes", "/model list ", "/model list"),
        ("/hermes", "", "/help"),
        ("/status", "", "/status"),
    ],
)
async def test_slash_commands_are_commands(
    slack: FakeSlack, app: SlackPlatform, name: str, text: str, expected: str
) -> None:
    await slack.command("C1", text, name)
    event = await message(app)
    assert event.text == expected
    assert event.source == Source("slack", "C1", "", "U7", "ada", "channel")


async def test_only_what_is_stored_is_acknowledged(slack: FakeSlack, app: SlackPlatform) -> None:
    await slack.say("D1", "one")
    with pytest.raises(Exception, match="disk is full"):
        await app.listen(Full())
    assert slack.unacknowledged == 1
    await message(app)
    await slack.until(lambda: slack.unacknowledged == 0)


async def test_a_new_connection_is_made_before_the_old_one_ends(
    slack: FakeSlack, app: SlackPlatform
) -> None:
    sink = Collected()
    async with asyncio.TaskGroup() as group:
        listening = group.create_task(app.listen(sink))
        for number in range(1, 4):
            await slack.until(lambda number=number: slack.opened == number)
            await slack.say("D1", str(number))
            await slack.disconnect("warning")
            await slack.say("D1", f"{number} and a half")
        await slack.until(lambda: slack.opened == 4 and not slack.unacknowledged)
        listening.cancel()
    texts = {each.event_id: each.text for each in sink.events if isinstance(each, MessageEvent)}
    assert sorted(texts.values()) == ["1", "1 and a half", "2", "2 and a half", "3", "3 and a half"]


@pytest.mark.parametrize("reason", ["link_disabled", "too_many_websockets"])
async def test_a_connection_that_slack_ends_for_good_is_an_error(
    slack: FakeSlack, app: SlackPlatform, reason: str
) -> None:
    async with asyncio.TaskGroup() as group:
        listening = group.create_task(_outcome(app))
        await slack.until(lambda: slack.opened == 1)
        await slack.disconnect(reason)
        assert reason in str(await listening)


async def _outcome(app: SlackPlatform) -> Exception:
    with pytest.raises(Unreachable) as raised:
        await app.listen(Collected())
    return raised.value


async def test_what_slack_has_given_up_to_deliver_is_read_later(slack: FakeSlack) -> None:
    sink = Collected()
    async with make_slack(config_of(slack)) as app:
        root = await slack.say("C1", "<@UBOT> hello")
        await slack.say("D1", "one")
        await sink.take(app, 2)
    await slack.say("D1", "two", is_heard=False)
    await slack.say("C1", "no concern of ours", is_heard=False)
    await slack.say("C1", "<@UBOT> three", is_heard=False)
    await slack.say("C1", "four", is_heard=False, thread_ts=root, parent_user_id="U7")
    async with make_slack(config_of(slack)) as again:
        events = await sink.take(again, 5)
        assert {each.text for each in events[2:] if isinstance(each, MessageEvent)} == {
            *("two", "three", "four")
        }
        asked = slack.calls["conversations.history"]
        await slack.say("D1", "five")
        await sink.take(again, 6)
        assert slack.calls["conversations.history"] == asked
    async with make_slack(config_of(slack)) as again:
        await slack.say("D1", "six")
        ids = {each.event_id for each in (await sink.take(again, 7))[6:]}
    assert len(ids) == 1


async def test_what_was_read_is_not_asked_for_again(slack: FakeSlack) -> None:
    sink = Collected()
    async with make_slack(config_of(slack)) as app:
        for chat in ("D1", "D2"):
            await slack.say(chat, "one")
        await sink.take(app, 2)
    for chat in ("D1", "D2"):
        await slack.say(chat, "two", is_heard=False)
    slack.faults.planned["conversations.history"] += ["", "limited"]
    async with make_slack(config_of(slack)) as again:
        with pytest.raises(RateLimited):
            await again.listen(sink)
        await slack.say("D1", "three")
        await sink.take(again, 5)
    assert slack.calls["conversations.history"] == 2


async def test_people_whom_slack_does_not_name_are_asked_for_once(
    slack: FakeSlack, app: SlackPlatform
) -> None:
    slack.faults.planned["users.info"] += ["missing_scope"] * 2
    for _ in range(2):
        await slack.say("D1", "hello")
    assert (await message(app, 2)).source.user_name == ""
    assert len(slack.faults.planned["users.info"]) == 1


async def test_what_was_written_while_the_machine_slept_is_read_later(slack: FakeSlack) -> None:
    sink, clock = Collected(), ManualClock(datetime.now(UTC))
    async with SlackPlatform(config_of(slack), clock) as app:
        await slack.say("D1", "one")
        await sink.take(app, 1)
        await slack.say("D1", "lost in a moment", is_heard=False)
        await slack.say("D1", "two")
        assert [each.text for each in await _texts(sink, app, 2)] == ["one", "two"]
        await slack.say("D1", "three", is_heard=False)
        await clock.suspend(120)
        assert [each.text for each in await _texts(sink, app, 3)][2:] == ["three"]


async def _texts(sink: Collected, app: SlackPlatform, count: int) -> list[MessageEvent]:
    return [each for each in await sink.take(app, count) if isinstance(each, MessageEvent)]
