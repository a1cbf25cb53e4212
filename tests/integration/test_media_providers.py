"""Speech, transcripts and pictures by the providers' own SDKs, against their published APIs."""

import asyncio
import base64
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import SecretStr

from agent_service.config.senses import PicturesConfig
from agent_service.models.consult import PaidResult
from agent_service.models.media.elevenlabs import ElevenLabs
from agent_service.models.media.failures import MediaFailed
from agent_service.models.media.openai_sdk import OpenAIServer
from agent_service.models.media.transcribers import elevenlabs_transcriber
from agent_service.records.model import ModelMessage, ModelRequest, encoded
from agent_service.records.usage import Usage
from agent_service.tools.media.pictures import (
    OpenAIImages,
    OpenRouterImages,
    PictureRequest,
    image_model_of,
)
from agent_service.tools.media.speech import ElevenLabsSpeech, OpenAISpeech, SpeechModel
from services.rpc import certs
from services.rpc.auth import Identity
from tests.fakes.media import KEY, MADE, FakeMedia, fake_media, picture
from tests.support.ports import free_port
from tests.support.reach import out_of_reach
from tests.support.sound import SENTENCES, container_of, need_sound, spoken, understood

SECRET = SecretStr(KEY)
FETCHER = out_of_reach().web.fetcher


@pytest.fixture
async def media() -> AsyncIterator[FakeMedia]:
    async with fake_media() as fake:
        yield fake


def openai(media: FakeMedia, name: str = "OpenAI") -> OpenAIServer:
    return OpenAIServer(name, media.url("/v1"), SECRET, "OPENAI_API_KEY")


def elevenlabs(media: FakeMedia) -> ElevenLabs:
    return ElevenLabs(media.url("/eleven"), SECRET)


def speaker(name: str, media: FakeMedia) -> SpeechModel:
    if name == "elevenlabs":
        return ElevenLabsSpeech(elevenlabs(media), "eleven_multilingual_v2", "JBFqnCBsd6RMkjVDRZzb")
    return OpenAISpeech(openai(media), "gpt-4o-mini-tts", "alloy")


@pytest.mark.parametrize("name", ["openai", "elevenlabs"])
@pytest.mark.parametrize(
    ("suffix", "container", "text"),
    [(".ogg", "ogg opus", SENTENCES[0]), (".mp3", "mp3 mp3", SENTENCES[1])],
)
async def test_what_is_spoken_is_understood(
    media: FakeMedia, name: str, suffix: str, container: str, text: str
) -> None:
    await need_sound()
    speaking = speaker(name, media)
    made = await speaking.speak(text, "", suffix)
    assert await container_of(made.data) == container
    assert await understood(made.data) == text
    assert made.usage == Usage(prompt_tokens=len(text))
    [(_, asked)] = media.asked
    assert speaking.model in (asked.get("model"), asked.get("model_id"))


async def test_elevenlabs_writes_down_what_is_said(media: FakeMedia) -> None:
    await need_sound()
    sound = base64.b64encode(await spoken(SENTENCES[2])).decode()
    part = {"type": "image_url", "image_url": {"url": f"data:audio/ogg;base64,{sound}"}}
    request = ModelRequest("scribe_v2", [encoded({"role": "user", "content": [part]})])
    listening = elevenlabs_transcriber(elevenlabs(media))
    async with listening.stream(request) as events:
        [answer] = [event async for event in events]
    assert isinstance(answer, ModelMessage)
    assert answer.text == SENTENCES[2]
    assert answer.usage == Usage(prompt_tokens=10 * len(SENTENCES[2].split()))


async def test_openai_makes_pictures_and_changes_them(media: FakeMedia) -> None:
    painter, paid = OpenAIImages(openai(media), "gpt-image-2"), PaidResult(MADE, Usage(20, 1_500))
    assert await painter.paint(PictureRequest("an otter", "square")) == paid
    sources = [picture(1), picture(2)]
    assert await painter.paint(PictureRequest("as one", "portrait", sources)) == paid
    (made, about), (edited, changed) = media.asked
    assert (made, about["prompt"]) == ("/v1/images/generations", "an otter")
    assert edited == "/v1/images/edits"
    assert changed["size"] == "1024x1536"
    assert changed["image[]"] == sources[-1]


async def test_openrouter_says_what_a_picture_cost(media: FakeMedia) -> None:
    painter = OpenRouterImages(openai(media, "OpenRouter"), "google/gemini-2.5-flash-image")
    made = await painter.paint(PictureRequest("an otter", "portrait", [picture(1)]))
    assert made == PaidResult(MADE, Usage(9, 1_290, cost_micro_usd=40_000))
    [(_, asked)] = media.asked
    assert asked["modalities"] == ["image", "text"]
    assert asked["image_config"] == {"aspect_ratio": "9:16"}
    sent = base64.b64encode(picture(1)).decode()
    [text, shown] = asked["messages"][0]["content"]
    assert text["text"] == "an otter"
    assert shown["image_url"]["url"] == f"data:image/png;base64,{sent}"


@pytest.fixture
def pki(tmp_path: Path) -> Path:
    """A CA and a certificate for localhost."""
    folder = tmp_path / "pki"
    certs.init(folder, datetime.now(UTC))
    certs.issue(folder, Identity.GATEWAY, ["localhost"], datetime.now(UTC))
    return folder


@pytest.fixture
async def fal(pki: Path) -> AsyncGenerator[FakeMedia]:
    """The queue of fal, which its SDK reaches by HTTPS at an address of the environment."""
    files = certs.files_of(pki, Identity.GATEWAY)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(files.certificate, files.key)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SSL_CERT_FILE", str(pki / "ca.crt"))
        patched.setenv("FAL_QUEUE_RUN_HOST", f"localhost:{FAL_PORT}")
        async with fake_media(tls=tls, port=FAL_PORT) as fake:
            yield fake


FAL_PORT = free_port()
"""The SDK reads its address once, when it is imported."""


async def test_fal_makes_pictures_and_changes_them(fal: FakeMedia) -> None:
    painter = image_model_of(PicturesConfig(fal_key=SECRET), None, None, FETCHER)
    assert painter is not None
    paid = PaidResult(MADE, Usage(completion_tokens=1_000))
    assert await painter.paint(PictureRequest("an otter", "landscape")) == paid
    assert await painter.paint(PictureRequest("as one", "square", [picture(1)])) == paid
    (made, about), (edited, changed) = fal.asked
    assert (made, edited) == ("/fal-ai/nano-banana", "/fal-ai/nano-banana/edit")
    assert about["aspect_ratio"] == "16:9"
    assert changed["image_urls"][0].endswith(base64.b64encode(picture(1)).decode())
    fal.failure = (403, "no such key")
    with pytest.raises(MediaFailed, match=r"fal\.ai rejected the key; check FAL_KEY"):
        await painter.paint(PictureRequest("an otter", "square"))


async def test_elevenlabs_trusts_the_certificates_of_the_environment(fal: FakeMedia) -> None:
    fal.failure = (401, "no such key")
    account = ElevenLabs(fal.url("/eleven", "https"), SECRET)
    with pytest.raises(MediaFailed, match="rejected the key"):
        await ElevenLabsSpeech(account, "eleven_multilingual_v2", "voice").speak("a", "", ".mp3")


@pytest.mark.parametrize("name", ["openai", "elevenlabs"])
@pytest.mark.parametrize(
    ("status", "said", "told"),
    [
        (401, "no such key", "rejected the key; check"),
        (402, "no credit", "is used up"),
        (400, "This text is not allowed.", r"refused it \(400\): .*This text is not allowed"),
    ],
)
async def test_a_refusal_says_what_to_do(
    media: FakeMedia, name: str, status: int, said: str, told: str
) -> None:
    media.failure = (status, said)
    with pytest.raises(MediaFailed, match=told) as failed:
        await speaker(name, media).speak("hello", "", ".mp3")
    assert KEY not in str(failed.value)


@pytest.mark.parametrize("name", ["openai", "elevenlabs"])
async def test_a_server_that_is_not_there_is_told(name: str) -> None:
    async with fake_media() as media:
        gone = speaker(name, media)
    with pytest.raises(MediaFailed, match="did not answer"):
        await asyncio.wait_for(gone.speak("hello", "", ".mp3"), 30)
