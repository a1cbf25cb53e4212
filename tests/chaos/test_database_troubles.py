"""A database that is full, read-only or slow: new work is refused, none is lost, all goes on."""

import asyncio
import secrets
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from time import monotonic

import grpc.aio
import pytest

from hermes.gateway.v1.conversation_pb2 import ConverseRequest
from services.cli.chat.dialogue import Dialogue
from tests.chaos.troubles import TROUBLES, Place, Trouble
from tests.fakes.model import FakeModel, fake_model
from tests.fakes.telegram import TOKEN, FakeTelegram, fake_telegram
from tests.integration.gateway_parts import Client, Hermes, client, hermes
from tests.support.postgres import PostgresServer

FILLER = secrets.token_hex(50_000)
"""So much that it goes into no page that a database has already."""
SLOW = f"What took long. {FILLER}"
ANSWER_AFTER_S = 0.8
RULES = {
    "rules": [
        {"user": "^slow", "steps": [{"text": SLOW, "latency_s": ANSWER_AFTER_S}]},
        {"user": "^new", "steps": [{"text": "Something new."}]},
        {"steps": [{"text": "re: {user}"}]},
    ]
}
HEALED_WITHIN_S = 10.0
"""Of which a lease takes nothing: it would have to expire first."""


@pytest.fixture(params=TROUBLES)
def trouble(request: pytest.FixtureRequest) -> Trouble:
    return TROUBLES[request.param]


@pytest.fixture
def place(trouble: Trouble, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    def server() -> PostgresServer:
        return request.getfixturevalue("postgres")

    with trouble.place(tmp_path, server) as made:
        yield made


@pytest.fixture
async def model() -> AsyncIterator[FakeModel]:
    async with fake_model(RULES) as running:
        yield running


@pytest.fixture
async def telegram() -> AsyncIterator[FakeTelegram]:
    async with fake_telegram() as running:
        yield running


@pytest.fixture
async def running(place: Place, model: FakeModel, telegram: FakeTelegram) -> AsyncIterator[Hermes]:
    environ = {
        "TELEGRAM_BOT_TOKEN": TOKEN,
        "TELEGRAM_BASE_URL": telegram.url,
        "TELEGRAM_ALLOWED_USERS": "7",
    }
    if place.database_url:
        environ["HERMES_DATABASE_URL"] = place.database_url
    async with hermes(place.home, model.url, environ=environ) as started:
        yield started


async def test_a_database_in_trouble_loses_nothing(
    running: Hermes, place: Place, trouble: Trouble, model: FakeModel, telegram: FakeTelegram
) -> None:
    new, new_id = f"new {FILLER}", "msg_new"
    async with client(running) as ada:
        await telegram.say(1, "hello")
        await telegram.until(lambda: telegram.texts(1) == ["re: hello"])
        waiting = ada.dialogue.say("slow, please")
        await model.until(lambda: asked(model)["slow, please"] == 1)
        async with happening(place, trouble):
            await telegram.say(1, "are you there?")
            if trouble.complaint:
                with pytest.raises(grpc.aio.AioRpcError, match=trouble.complaint):
                    await say(running, new, new_id)
            if not trouble.lasts_s:
                await ada.until(lambda ada: is_told(ada, waiting, trouble))
        assert ada.outcome(waiting) is None
        async with asyncio.timeout(HEALED_WITHIN_S):
            await ada.until(lambda ada: ada.outcome(waiting) is not None)
            await telegram.until(lambda: telegram.texts(1) == ["re: hello", "re: are you there?"])
        ended = ada.outcome(waiting)
        assert ended is not None
        assert ended.completed.answer == SLOW
        if not trouble.lasts_s:
            assert is_told(ada, waiting, trouble), "it waited without a word"
    assert await say(running, new, new_id) == "Something new."
    counts = asked(model)
    assert counts.pop("slow, please") <= (1 if trouble.is_full else 2)
    assert counts == Counter(["hello", "are you there?", new]), "the refused one was not begun"


def is_told(ada: Client, message_id: str, trouble: Trouble) -> bool:
    """Whether the terminal was told why a turn waits."""
    told = [event.notice.text for event in ada.events(ada.turn(message_id))]
    return any(trouble.complaint in text for text in told)


@asynccontextmanager
async def happening(place: Place, trouble: Trouble) -> AsyncGenerator[None]:
    """The trouble, and in it the moment at which the slow answer is to be stored."""
    begun, happens = monotonic(), place.happens()
    await asyncio.to_thread(happens.__enter__)
    try:
        yield
        await asyncio.sleep(begun + max(trouble.lasts_s, 2 * ANSWER_AFTER_S) - monotonic())
    finally:
        await asyncio.to_thread(happens.__exit__, None, None, None)


async def say(running: Hermes, text: str, message_id: str) -> str:
    """Say something in a new conversation; returns the answer."""
    opening = ConverseRequest.Open()
    dialogue = Dialogue(running.operator.to("gateway"), opening)
    dialogue.say(text, message_id)
    async with aclosing(dialogue.responses()) as responses:
        while True:
            events = (await anext(responses)).event.events
            if events and events[-1].HasField("turn_finished"):
                return events[-1].turn_finished.completed.answer


def asked(model: FakeModel) -> Counter[str]:
    """How often the model was asked what."""
    return Counter(body["messages"][-1]["content"] for body in model.bodies)
