"""Files that people send: fetched from their platform, given to the agent, shown to the model."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gateway_service.messages import FileKind, RemoteFile
from gateway_service.storage import migrations
from hermes.common.v1 import content_pb2
from services.database import Database
from services.database.migrations import prepare
from tests.fakes.model import answers, fake_model
from tests.fakes.platform import MemoryPlatform
from tests.fakes.telegram import fake_telegram
from tests.integration.gateway_replicas import Agent, replica
from tests.integration.test_agent_files import PNG, SEES, URL
from tests.integration.test_gateway_telegram import again, bot
from tests.support.executors import until

SEEN = answers({"text": "A dot."})
VOICE = {"file_id": "voice", "file_unique_id": "u", "duration": 1, "mime_type": "audio/ogg"}


def photo(file_id: str) -> dict[str, Any]:
    sizes = [{"file_id": f, "file_unique_id": f, "width": 1, "height": 1} for f in ("s", file_id)]
    return {"photo": sizes}


def seeing(yaml: str = "") -> str:
    return SEES.replace("scripted", "m") + yaml


async def test_an_album_with_its_caption_is_one_message_with_pictures(tmp_path: Path) -> None:
    async with (
        fake_telegram() as telegram,
        fake_model(SEEN) as model,
        again(tmp_path, telegram, model, seeing()),
    ):
        telegram.files = {"one": PNG, "two": PNG + b"2"}
        await telegram.say(1, "", media_group_id="a", caption="What is it?", **photo("one"))
        await telegram.say(1, "", media_group_id="a", **photo("two"))
        await telegram.until(lambda: telegram.texts(1) == ["A dot."])
        [body] = model.bodies
        parts = body["messages"][-1]["content"]
    assert "What is it?" in parts[0]["text"]
    urls = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
    assert urls[0] == URL
    assert len(urls) == 2


async def test_files_of_strangers_are_not_fetched(tmp_path: Path) -> None:
    async with bot(tmp_path, SEEN, seeing()) as (telegram, running):
        telegram.files = {"one": PNG}
        await telegram.say(2, "", user_id=666, **photo("one"))
        await running.until_rows("gateway", "SELECT state FROM inbox", [("IGNORED",)])
        assert telegram.calls["getFile"] == telegram.calls["file"] == 0


async def test_a_download_that_breaks_off_is_tried_again(tmp_path: Path) -> None:
    async with bot(tmp_path, SEEN, seeing()) as (telegram, _):
        telegram.files = {"one": PNG}
        telegram.faults.planned["file"] = ["drop_before"]
        telegram.faults.planned["getFile"] = ["limited"]
        await telegram.say(1, "", **photo("one"))
        await telegram.until(lambda: telegram.texts(1) == ["A dot."])
        assert telegram.calls["file"] == 2


async def test_what_is_too_large_or_gone_is_said(tmp_path: Path) -> None:
    video = {"file_id": "v", "file_unique_id": "v", "width": 1, "height": 1, "duration": 1}
    large = {**video, "file_size": 100_000_000}
    async with (
        fake_telegram() as telegram,
        fake_model(answers({"text": "Pity."})) as model,
        again(tmp_path, telegram, model),
    ):
        await telegram.say(1, "", video=large)
        alone = "I could not read the video: it is larger than 50 MB."
        await telegram.until(lambda: telegram.texts(1) == [alone])
        await telegram.say(2, "", video=video, caption="Watch it.")
        gone = "I could not read the video: telegram: Invalid file_id."
        await telegram.until(lambda: sorted(telegram.texts(2)) == [gone, "Pity."])
        [body] = model.bodies
        assert "could not be fetched" in body["messages"][-1]["content"]
        assert telegram.calls["file"] == 0


async def test_an_answer_that_nobody_can_read_costs_only_the_file(tmp_path: Path) -> None:
    async with bot(tmp_path, SEEN, seeing()) as (telegram, _):
        telegram.faults.planned["place"] = ["odd", "odd"]
        for _ in range(2):
            await telegram.say(1, "", media_group_id="a", **photo("one"))
        lost = "I could not read the picture: telegram does not say where the file is."
        await telegram.until(lambda: telegram.texts(1) == [lost])
        assert telegram.calls["file"] == 0


async def test_a_home_without_a_place_for_files_costs_only_the_file(
    tmp_path: Path, agent: Agent
) -> None:
    database = Database(f"sqlite:///{tmp_path}/gateway.db", "gateway")
    platform = MemoryPlatform()
    platform.files = {"f": b"x"}
    async with database:
        await prepare(database, migrations)
        async with replica(database, platform, agent, home=tmp_path / "none"):
            file = RemoteFile(FileKind.IMAGE, "f", "a.png")
            platform.say("1", "answer Read.", files=(file,))
            lost = "I could not read the picture `a.png`: it could not be stored."
            await until(lambda: sorted(platform.texts("1")) == [lost, "Read."])
    assert agent.turns.uploads == {}


async def test_a_voice_that_nobody_can_hear_says_what_to_set(tmp_path: Path) -> None:
    async with bot(tmp_path, answers({"text": "I cannot hear it."})) as (telegram, _):
        telegram.files = {"voice": b"OggS"}
        await telegram.say(1, "", voice=VOICE)
        told = "auxiliary.transcription.model"
        await telegram.until(lambda: told in json.dumps(telegram.texts(1)))
        [text] = telegram.texts(1)
        assert "I cannot hear it." in text


async def test_a_gateway_that_died_before_the_turn_starts_the_same_one(
    tmp_path: Path, agent: Agent
) -> None:
    database = Database(f"sqlite:///{tmp_path}/gateway.db", "gateway")
    platform = MemoryPlatform()
    platform.files = {"f": b"x" * 5000}
    file = RemoteFile(FileKind.DOCUMENT, "f", "notes.bin", "application/x-notes", is_forwarded=True)
    async with database:
        await prepare(database, migrations)
        agent.turns.unreachable = True
        async with replica(database, platform, agent, home=tmp_path):
            platform.say("1", "answer Read.", files=(file,))
            await agent.turns.uploaded(1)
            await until(lambda: agent.turns.refused)
        platform.files = {}
        agent.turns.unreachable = False
        async with replica(database, platform, agent, home=tmp_path):
            [turn_id] = await agent.turns.started(1)
            parts = agent.turns.requests[turn_id].parts
    assert platform.downloads == 1
    assert parts[0].text == "answer Read."
    sent = parts[1].file
    assert (sent.name, sent.mime_type) == ("notes.bin", "application/x-notes")
    assert (sent.kind, sent.is_forwarded) == (content_pb2.FILE_KIND_DOCUMENT, True)
    assert agent.turns.uploads == {sent.sha256: b"x" * 5000}


async def test_more_than_was_announced_is_not_taken(tmp_path: Path, agent: Agent) -> None:
    database = Database(f"sqlite:///{tmp_path}/gateway.db", "gateway")
    platform = MemoryPlatform()
    platform.files = {"f": bytes(20_000_001)}
    async with database:
        await prepare(database, migrations)
        async with replica(database, platform, agent, home=tmp_path):
            file = RemoteFile(FileKind.IMAGE, "f", "`../a\u202eb`.png", length_bytes=1)
            platform.say("1", "", files=(file,))
            why = "I could not read the picture `_../a_b_.png`: it is larger than 20 MB."
            await until(lambda: platform.texts("1") == [why])
    assert agent.turns.uploads == {}


def test_mapping_of_kinds_is_whole() -> None:
    known: Mapping[str, int] = dict(content_pb2.FileKind.items())
    assert {f"FILE_KIND_{kind.upper()}" for kind in FileKind} <= known.keys()
