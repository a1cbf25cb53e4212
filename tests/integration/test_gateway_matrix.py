"""Hermes in encrypted rooms of a real homeserver."""

from pathlib import Path

import pytest
from pydantic import SecretStr

from gateway_service.messages import Attachment, Content, FileKind, MessageEvent, Reaction
from gateway_service.platforms.base import Destination
from gateway_service.platforms.matrix.config import MatrixConfig
from gateway_service.platforms.matrix.platform import EVENTS_PER_SYNC, VOICE, MatrixPlatform
from tests.fakes.sink import Collected
from tests.support.synapse import make_account, person, synapse

pytestmark = pytest.mark.slow


@pytest.mark.timeout(180)
async def test_an_encrypted_room(tmp_path: Path) -> None:
    async with synapse(tmp_path) as url, person(url, "ada", tmp_path / "ada") as ada:
        user_id, token = await make_account(url, "hermes")
        config = MatrixConfig(
            token=SecretStr(token), user_id=user_id, homeserver=url, allowed_users=(ada.id,)
        )
        sink = Collected()
        async with MatrixPlatform(config, tmp_path / "hermes") as platform:
            room_id = await ada.invite(user_id, encrypted=True)
            async with sink.listening(platform):
                await ada.until_joined(room_id, user_id)
                await ada.say(room_id, "one")
                await sink.until(1)
                chat = Destination(room_id)
                data = b"\x89PNG\r\n\x1a\n" + bytes(100)
                owl = Attachment("owl.png", len(data), "0" * 64, data)
                sent = await platform.send(chat, Content("An owl", attachment=owl), "key-1")
                said = Attachment("said.ogg", 4, "0" * 64, b"OggS")
                voice = await platform.send(chat, Content("", attachment=said), "key-3")
                assert await platform.send(chat, Content("twice"), "key-2") == await platform.send(
                    chat, Content("twice"), "key-2"
                )
                read = await ada.read(room_id)
                assert read[sent]["msgtype"] == "m.image"
                assert "url" not in read[sent], "the file is encrypted"
                assert read[voice]["msgtype"] == "m.audio"
                assert read[voice][VOICE] == {}
                await ada.say(room_id, "owl.png", **read[sent] | {"body": "owl.png"})
                relation = {"rel_type": "m.annotation", "event_id": sent, "key": "👍"}
                thumb = {"m.relates_to": relation}
                await ada.client.room_send(room_id, "m.reaction", thumb)
                *_, picture, reaction = await sink.until(3)
                assert isinstance(reaction, Reaction)
                assert (reaction.message_id, reaction.emoji) == (sent, "👍")
                assert isinstance(picture, MessageEvent)
                [file] = picture.files
                assert file.kind is FileKind.IMAGE
                assert b"".join([chunk async for chunk in platform.download(file)]) == data
        for number in range(EVENTS_PER_SYNC + 5):
            await ada.say(room_id, f"missed {number}")
        async with (
            MatrixPlatform(config, tmp_path / "hermes") as platform,
            sink.listening(platform),
        ):
            events = await sink.until(3 + EVENTS_PER_SYNC + 5)
        texts = [event.text for event in events if isinstance(event, MessageEvent)]
        assert texts == ["one", "", *(f"missed {each}" for each in range(EVENTS_PER_SYNC + 5))]
