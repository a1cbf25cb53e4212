"""Speech, sound and pictures in the real loop: what the chat gets, what it costs, and kill -9."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hermes.agent.v1 import usage_pb2
from hermes.agent.v1.usage_pb2_grpc import UsageServiceStub
from hermes.common.v1.content_pb2 import FILE_KIND_VOICE
from tests.fakes.media import KEY, MADE, FakeMedia, fake_media, picture
from tests.fakes.model import FakeModel, answers, call, fake_model
from tests.integration.agent_parts import AgentClient, agent, answer
from tests.integration.agent_processes import AgentProcess
from tests.integration.test_agent_media import CHAT, Stage, shell, stage
from tests.integration.test_agent_web import told
from tests.support.sound import SENTENCES, container_of, need_sound, spoken, understood

TEXT = SENTENCES[0]
DRAW = call("image_generate", prompt="an otter")


@asynccontextmanager
async def senses(
    folder: Path, *steps: Any, more: str = ""
) -> AsyncGenerator[tuple[Stage, FakeMedia]]:
    async with fake_media() as media, stage(folder, *steps) as on:
        await asyncio.to_thread(_configure, on.place.folder / "only", media.url("/v1"), more)
        yield on, media


def _configure(home: Path, url: str, more: str) -> None:
    (home / ".env").write_text(f"OPENAI_API_KEY={KEY}\nOPENAI_BASE_URL={url}\n")
    with (home / "config.yaml").open("a") as config:
        config.write(f"{more}\nmodels: {{scripted: {{price: {{input: 0, output: 0}}}}}}\n")


async def costs(client: AgentClient) -> dict[str, int]:
    request = usage_pb2.GetUsageRequest(group_by=usage_pb2.USAGE_GROUP_MODEL)
    found = await UsageServiceStub(client.channels.to("agent")).GetUsage(request)
    return {one.key: one.usage.cost_micro_usd for one in found.sums}


async def test_an_answer_is_spoken_sent_and_written_down(tmp_path: Path) -> None:
    await need_sound()
    speak, listen = call("text_to_speech", text=TEXT), call("transcribe_audio", audio="said.ogg")
    async with (
        senses(tmp_path, speak, shell("cp media/*.ogg said.ogg"), listen) as (on, media),
        AgentProcess(on.place, "only") as running,
        running.client() as client,
    ):
        turn = await client.start("say it", origin=CHAT)
        assert answer(await client.watch(turn.turn_id)) == "done"
        [(text, files)] = on.sent
        [(name, sound)] = files.items()
        assert (text, name[:7], name[-4:]) == ("", "speech-", ".ogg")
        assert await container_of(sound) == "ogg opus"
        assert await understood(sound) == TEXT
        assert told(on.model).startswith("[Untrusted data ")
        assert TEXT in told(on.model)
        assert [path for path, _ in media.asked] == ["/v1/audio/speech", "/v1/audio/transcriptions"]
        # 17 USD for a million characters, and 7.5 for a million tenths of a second.
        spent = await costs(client)
        assert spent == {"scripted": 0, "gpt-4o-mini-tts": 17 * len(TEXT), "gpt-transcribe": 225}


@pytest.mark.parametrize(
    ("provider", "path", "asked_model"),
    [
        ("GROQ", "/v1", {"model": "whisper-large-v3-turbo"}),
        ("ELEVENLABS", "/eleven", {"model_id": "scribe_v2"}),
    ],
)
async def test_a_voice_message_is_understood_with_only_a_key(
    tmp_path: Path, provider: str, path: str, asked_model: dict[str, str]
) -> None:
    await need_sound()
    async with fake_media() as media, fake_model(answers({"text": "well"})) as model:
        variables = {f"{provider}_API_KEY": KEY, f"{provider}_BASE_URL": media.url(path)}
        async with agent(tmp_path, model.url, **variables) as client:
            voice = await client.upload(await spoken(TEXT), "voice.ogg", FILE_KIND_VOICE)
            assert answer(await client.ask("", voice)) == "well"
            # Both count three or so seconds of sound.
            assert any(cost for name, cost in (await costs(client)).items() if name != "scripted")
    assert said(model).endswith(f"voice.ogg says:]\n{TEXT}")
    [(_, asked)] = media.asked
    assert asked_model.items() <= asked.items()


def said(model: FakeModel) -> str:
    return str(model.bodies[-1]["messages"][-1]["content"])


async def test_a_picture_of_the_workspace_is_changed(tmp_path: Path) -> None:
    data = picture(7).hex()
    make = shell(f"python3 -c \"open('cat.png','wb').write(bytes.fromhex('{data}'))\"")
    change = call("image_generate", prompt="a crown", aspect_ratio="square", images=["cat.png"])
    async with (
        senses(tmp_path, make, change) as (on, media),
        AgentProcess(on.place, "only") as running,
        running.client() as client,
    ):
        turn = await client.start("change it", origin=CHAT)
        await client.watch(turn.turn_id)
        [(path, asked)] = media.asked
        assert path == "/v1/images/edits"
        assert picture(7) in asked.values()
        [(_, files)] = on.sent
        assert [*files.values()] == [MADE]
        assert (await costs(client))["gpt-image-2"] == 20 * 8 + 1_500 * 30


async def test_a_killed_agent_makes_a_picture_once_it_is_back(tmp_path: Path) -> None:
    async with senses(tmp_path, DRAW) as (on, media):
        media.hold = asyncio.Event()
        async with AgentProcess(on.place, "only") as first, first.client() as client:
            turn = await client.start("draw", origin=CHAT)
            while not media.asked:  # noqa: ASYNC110 - it tells of what it answers only
                await asyncio.sleep(0.02)
        media.hold.set()
        async with AgentProcess(on.place, "only") as second, second.client() as client:
            assert answer(await client.watch(turn.turn_id)) == "done"
            assert (await costs(client))["gpt-image-2"] == 20 * 8 + 1_500 * 30
        assert [len(files) for _, files in on.sent] == [1]


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ("budget: {session: {usd: 0.01}}", "0.01"),
        ("budget: {session: {usd: 1}}\nimage_gen: {openai: {model: other}}", "other"),
    ],
)
async def test_a_budget_holds_before_a_picture_is_made(tmp_path: Path, more: str, why: str) -> None:
    async with (
        senses(tmp_path, DRAW, more=more) as (on, media),
        AgentProcess(on.place, "only") as running,
        running.client() as client,
    ):
        await client.watch((await client.start("draw", origin=CHAT)).turn_id)
        assert why in told(on.model)
        assert media.asked == []
        assert on.sent == []


async def test_a_refused_picture_costs_nothing_and_says_why(tmp_path: Path) -> None:
    async with (
        senses(tmp_path, DRAW, more="budget: {session: {usd: 1}}") as (on, media),
        AgentProcess(on.place, "only") as running,
        running.client() as client,
    ):
        media.failure = (400, "This is not allowed.")
        await client.watch((await client.start("draw", origin=CHAT)).turn_id)
        assert "This is not allowed." in told(on.model)
        assert json.dumps(await costs(client)) == '{"scripted": 0}'
