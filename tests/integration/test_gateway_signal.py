"""Signal through signal-cli's daemon: groups, mentions, quotes, new versions and files."""

from typing import Any

import pytest

from gateway_service.errors import Refused
from gateway_service.messages import (
    Attachment,
    Content,
    FileKind,
    MessageEvent,
    Quote,
    Reaction,
    RemoteFile,
)
from gateway_service.platforms.base import Destination
from gateway_service.platforms.signal.config import SignalConfig
from gateway_service.platforms.signal.events import read_event
from gateway_service.platforms.signal.platform import SignalPlatform
from services.runtime.checks import Verdict
from tests.fakes.signal_cli import ACCOUNT, FILE, config_of, fake_signal_cli
from tests.fakes.sink import Collected
from tests.support.platform_checks import checked

ADA = "+491511234567"
GROUP = {"groupInfo": {"groupId": "Zm9v/bar=", "type": "DELIVER"}}
US = {"start": 0, "length": 1, "number": ACCOUNT}


async def receive(text: str, **data: Any) -> list[MessageEvent]:
    """What becomes of a message before the one that ends the test."""
    async with fake_signal_cli() as server, SignalPlatform(config_of(server)) as platform:
        sink = Collected()
        await server.say(ADA, text, **data)
        await server.say(ADA, "the end")
        found = list[MessageEvent]()
        async with sink.listening(platform):
            while not found or found[-1].text != "the end":
                await sink.until(len(sink.events) + 1)
                found = [each for each in sink.events if isinstance(each, MessageEvent)]
        return found[:-1]


async def test_in_a_group_only_what_is_said_to_us_is_read() -> None:
    assert await receive("hello everybody", **GROUP) == []
    [event] = await receive("\ufffc what is new?", mentions=[US], **GROUP)
    assert event.text == "what is new?"
    assert (event.source.chat_id, event.source.chat_type) == ("group.Zm9v/bar=", "group")
    assert (event.source.user_id, event.source.user_name) == (ADA, "Ada")
    ours = {"quote": {"id": 7, "author": ACCOUNT, "text": "Shall I?"}}
    [event] = await receive("yes", **GROUP, **ours)
    assert (event.text, event.replies_to, event.quotes) == ("yes", "7", ())


async def test_what_others_said_is_quoted() -> None:
    quote = {"id": 7, "author": "+4930", "text": "The sky is green."}
    [event] = await receive("is that so?", quote=quote)
    assert event.quotes == (Quote("The sky is green.", "+4930", is_forwarded=False),)


async def test_files_go_both_ways() -> None:
    async with fake_signal_cli() as server, SignalPlatform(config_of(server)) as platform:
        sink = Collected()
        file = {"id": "owl.png", "contentType": "image/png", "filename": "owl.png", "size": 5}
        await server.say(ADA, "", attachments=[file, {"id": "v", "contentType": "audio/aac"}])
        [event] = await sink.take(platform, 1)
        assert isinstance(event, MessageEvent)
        picture, voice = event.files
        assert (picture.kind, picture.name, voice.kind) == (
            FileKind.IMAGE,
            "owl.png",
            FileKind.VOICE,
        )
        assert b"".join([chunk async for chunk in platform.download(picture)]) == FILE
        sent = Attachment("a.txt", 2, "0" * 64, b"hi")
        await platform.send(Destination("group.Zm9v"), Content("**note**", attachment=sent), "k")
        params = server.calls[-1]["params"]
        assert params["attachments"] == ["data:text/plain;filename=a.txt;base64,aGk="]
        assert (params["groupId"], params["message"]) == ("Zm9v", "note")


async def test_a_file_is_read_as_it_arrives() -> None:
    async with fake_signal_cli() as server, SignalPlatform(config_of(server)) as platform:
        large = RemoteFile(FileKind.DOCUMENT, f"{ADA}/large")
        read = [chunk async for chunk in platform.download(large)]
        assert b"".join(read) == FILE * 100_000
        assert len(read) > 1
        with pytest.raises(Refused, match="Could not find"):
            await anext(platform.download(RemoteFile(FileKind.DOCUMENT, f"{ADA}/gone")))


async def test_a_new_version_names_the_old_one() -> None:
    async with fake_signal_cli() as server, SignalPlatform(config_of(server)) as platform:
        sink = Collected()
        data = {"timestamp": 9, "message": "better"}
        await server.tell(ADA, editMessage={"targetSentTimestamp": 8, "dataMessage": data})
        [event] = await sink.take(platform, 1)
        assert isinstance(event, MessageEvent)
        assert (event.text, event.edits) == ("better", "8")


async def test_an_emoji_on_our_message_is_a_reaction() -> None:
    async with fake_signal_cli() as server, SignalPlatform(config_of(server)) as platform:
        sink = Collected()
        put = {"emoji": "👍", "targetAuthor": ACCOUNT, "targetSentTimestamp": 8, "isRemove": False}
        for reaction in ({**put, "targetAuthor": ADA}, {**put, "isRemove": True}, put):
            await server.say(ADA, "", reaction=reaction, **GROUP)
        await server.say(ADA, "the end")
        found, end = await sink.take(platform, 2)
        assert isinstance(found, Reaction)
        assert (found.message_id, found.emoji, found.source.user_id) == ("8", "👍", ADA)
        assert isinstance(end, MessageEvent)


async def test_a_sticker_is_a_message_without_words() -> None:
    [event] = await receive("", sticker={"packId": "a1", "stickerId": 3})
    assert (event.text, event.files) == ("", ())
    assert await receive("", groupInfo={"groupId": "a", "type": "UPDATE"}) == []


def test_what_cannot_be_read_is_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    for text in (
        "{",
        "[]",
        '{"envelope": {"sourceNumber": "+1", "dataMessage": {"message": "x"}}}',
    ):
        assert read_event(text, ACCOUNT) is None
    assert caplog.text.count("passed over") == 3
    assert read_event('{"envelope": {"sourceNumber": "+1", "typingMessage": {}}}', ACCOUNT) is None


async def test_the_check_names_a_wrong_number() -> None:
    async with fake_signal_cli() as server:
        assert (await checked(config_of(server))).verdict is not Verdict.FAILED
        other = SignalConfig(account="+1", http_url=server.url)
        found = await checked(other)
        assert (found.verdict, ACCOUNT in found.message) == (Verdict.FAILED, True)
    gone = await checked(SignalConfig(account="+1", http_url="http://127.0.0.1:9"))
    assert "signal-cli cannot be reached" in gone.message
