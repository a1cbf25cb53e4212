"""Hermes is killed while people talk on platforms that are unreliable: nothing is lost or twice."""

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from email.message import EmailMessage
from functools import partial
from pathlib import Path
from tempfile import mkdtemp

import aiohttp
import nio
import pytest

from services.lifecycle import Workers
from tests.chaos.traffic import MARK, PLACEHOLDER
from tests.e2e.backends import need_backend, sandboxed
from tests.e2e.deployment import one_process
from tests.e2e.model import ModelProcess
from tests.fakes import signal_cli as signal_fake
from tests.fakes import slack as slack_fake
from tests.fakes import twilio as twilio_fake
from tests.fakes import whatsapp as whatsapp_fake
from tests.fakes.discord import fake_discord
from tests.fakes.mattermost import fake_mattermost
from tests.fakes.signal_cli import fake_signal_cli
from tests.fakes.slack import fake_slack
from tests.fakes.twilio import FakeTwilio, fake_twilio
from tests.fakes.whatsapp import FakeWhatsApp, fake_whatsapp
from tests.support.dovecot import mail_server, plain_text
from tests.support.executors import until
from tests.support.ports import free_port
from tests.support.synapse import make_account, person, synapse

CHATS = 20
SOME, MANY = (100, 4), (1000, 20)
"""Messages and kills."""
PATIENCE_S, REPEAT_AFTER_S = 240.0, 60.0
LOST_WITH_A_KILL = 2
"""The most that one of them may take along where the platform does not send it again."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where people talk."""

    environ: Mapping[str, str]
    chats: Sequence[str]
    say: Callable[[str, str], Awaitable[object]]
    texts: Callable[[str], Sequence[str]]
    may_repeat: bool = True
    """With a mark, as the platform does not recognize what it has been told before."""
    loses: bool = False
    """What Hermes has not stored when it is killed; people write it again."""


@asynccontextmanager
async def slack() -> AsyncGenerator[Place]:
    async with fake_slack() as server:
        server.faults.drop_before, server.faults.drop_after = 0.02, 0.02
        server.faults.limited = 0.01
        environ = {
            "SLACK_BOT_TOKEN": slack_fake.TOKEN,
            "SLACK_APP_TOKEN": slack_fake.APP_TOKEN,
            "SLACK_BASE_URL": server.url,
            "SLACK_ALLOWED_USERS": "U7",
        }
        chats = [f"D{number}" for number in range(CHATS)]
        async with Workers() as workers:
            workers.start("refresh", _again_and_again(server.disconnect))
            yield Place(environ, chats, server.say, server.texts)


@asynccontextmanager
async def whatsapp() -> AsyncGenerator[Place]:
    async with fake_whatsapp() as server, Workers() as workers:
        server.faults.drop_before, server.faults.drop_after = 0.02, 0.02
        port = free_port()
        environ = {
            "WHATSAPP_TOKEN": whatsapp_fake.TOKEN,
            "WHATSAPP_PHONE_NUMBER_ID": whatsapp_fake.NUMBER,
            "WHATSAPP_APP_SECRET": whatsapp_fake.SECRET,
            "WHATSAPP_VERIFY_TOKEN": whatsapp_fake.VERIFY,
            "WHATSAPP_BASE_URL": server.url,
            "WHATSAPP_ALLOW_ALL_USERS": "true",
            "API_SERVER_PORT": f"{port}",
        }
        chats = [f"49151{number}" for number in range(CHATS)]

        def texts(chat: str) -> Sequence[str]:
            return [shown.text.replace("_", "") for shown in server.chats[chat].values()]

        workers.start("calls", _call(server, f"http://127.0.0.1:{port}/webhooks/whatsapp"))
        yield Place(environ, chats, server.say, texts)


async def _call(server: FakeWhatsApp | FakeTwilio, url: str) -> None:
    """Call the webhook again and again, sometimes once more than needed."""
    dice = random.Random(1)
    async with aiohttp.ClientSession() as http:
        while True:
            call = await server.next_call()
            try:
                async with http.post(url, data=call.body, headers=call.headers) as response:
                    is_stored = response.status == 200
            except aiohttp.ClientError:
                is_stored = False
            if not is_stored:
                await asyncio.sleep(0.2)
            elif dice.random() > 0.1:
                server.confirm()


@asynccontextmanager
async def discord() -> AsyncGenerator[Place]:
    async with fake_discord() as server, Workers() as workers:
        server.faults.drop_before = server.faults.drop_after = 0.02
        server.faults.limited = 0.01
        server.direct = {f"5{number:02}": f"7{number:02}" for number in range(CHATS)}
        environ = {
            "DISCORD_BOT_TOKEN": server.token,
            "DISCORD_BASE_URL": server.url,
            "DISCORD_ALLOWED_USERS": ",".join(server.direct.values()),
        }

        async def say(chat: str, text: str) -> None:
            await server.say(chat, text, server.direct[chat])

        workers.start("drops", _again_and_again(server.gateway.drop))
        yield Place(environ, list(server.direct), say, server.texts, may_repeat=False)


@asynccontextmanager
async def mattermost() -> AsyncGenerator[Place]:
    async with fake_mattermost() as server, Workers() as workers:
        server.faults.drop_before = server.faults.drop_after = 0.02
        server.faults.limited = 0.01
        chats = [f"5{number:02}" for number in range(CHATS)]
        server.channels |= dict.fromkeys(chats, "D")
        environ = {
            "MATTERMOST_TOKEN": server.token,
            "MATTERMOST_URL": server.url,
            "MATTERMOST_ALLOWED_USERS": "7",
        }

        async def drop() -> None:
            for stream in list(server.sockets):
                await stream.close()

        workers.start("drops", _again_and_again(drop))
        yield Place(environ, chats, server.say, server.texts)


@asynccontextmanager
async def email() -> AsyncGenerator[Place]:
    async with mail_server() as server:
        server.loss = 0.02
        chats = [f"person{number}@example.org" for number in range(CHATS)]

        told, read = defaultdict[str, dict[str, str]](dict), list[EmailMessage]()

        def texts(chat: str) -> Sequence[str]:
            # Servers of recipients drop a copy of a mail, by its id.
            for mail in server.sent[len(read) :]:
                read.append(mail)
                told[mail["To"]][mail["Message-ID"]] = plain_text(mail).replace("_", "")
            return list(told[chat].values())

        environ = {**server.environ, "EMAIL_ALLOWED_USERS": ",".join(chats)}
        yield Place(environ, chats, server.write, texts)


@asynccontextmanager
async def sms() -> AsyncGenerator[Place]:
    async with fake_twilio() as server, Workers() as workers:
        server.loss = 0.02
        port = free_port()
        environ = {
            "TWILIO_ACCOUNT_SID": twilio_fake.SID,
            "TWILIO_AUTH_TOKEN": twilio_fake.TOKEN,
            "TWILIO_PHONE_NUMBER": twilio_fake.NUMBER,
            "SMS_BASE_URL": server.url,
            "SMS_ALLOW_ALL_USERS": "true",
            "API_SERVER_PORT": f"{port}",
            "API_SERVER_PUBLIC_URL": twilio_fake.URL.removesuffix("/webhooks/sms"),
        }

        def texts(chat: str) -> Sequence[str]:
            return [text for to, text in server.sent.values() if to == chat]

        workers.start("calls", _call(server, f"http://127.0.0.1:{port}/webhooks/sms"))
        chats = [f"+49151{number:02}" for number in range(CHATS)]
        yield Place(environ, chats, server.say, texts)


@asynccontextmanager
async def signal() -> AsyncGenerator[Place]:
    async with fake_signal_cli() as server:
        server.loss = 0.02

        def texts(chat: str) -> Sequence[str]:
            return [text for text in server.sent.values() if f"job {chat}/" in text]

        chats = [f"+49151{number:02}" for number in range(CHATS)]
        environ = {
            "SIGNAL_ACCOUNT": signal_fake.ACCOUNT,
            "SIGNAL_HTTP_URL": server.url,
            "SIGNAL_ALLOWED_USERS": ",".join(chats),
        }
        yield Place(environ, chats, server.say, texts, loses=True)


@asynccontextmanager
async def matrix() -> AsyncGenerator[Place]:
    folder = Path(await asyncio.to_thread(mkdtemp, prefix="hermes-matrix-"))
    async with (
        synapse(folder) as url,
        person(url, "ada", folder / "ada") as ada,
        Workers() as workers,
    ):
        user_id, token = await make_account(url, "hermes")
        shown = {await ada.invite(user_id, encrypted=True): dict[str, str]() for _ in range(CHATS)}

        def note(room: nio.MatrixRoom, event: nio.Event) -> None:
            content = event.source["content"]
            relation = content.get("m.relates_to", {})
            is_edit = relation.get("rel_type") == "m.replace"
            if event.sender == user_id and "body" in content:
                new = content["m.new_content"]["body"] if is_edit else content["body"]
                shown[room.room_id][relation["event_id"] if is_edit else event.event_id] = new

        async def say(room_id: str, text: str) -> None:
            await until(lambda: ada.client.rooms[room_id].joined_count == 2, PATIENCE_S)
            await ada.client.room_send(
                *(room_id, "m.room.message", {"msgtype": "m.text", "body": text}),
                ignore_unverified_devices=True,
            )

        ada.client.add_event_callback(note, nio.RoomMessageText)
        environ = {
            "MATRIX_HOMESERVER": url,
            "MATRIX_USER_ID": user_id,
            "MATRIX_ACCESS_TOKEN": token,
            "MATRIX_ALLOWED_USERS": ada.id,
        }
        workers.start("sync", _again_and_again(lambda: ada.sync(10_000), 0))
        yield Place(environ, list(shown), say, lambda it: [*shown[it].values()], may_repeat=False)


async def _again_and_again(work: Callable[[], Awaitable[None]], pause_s: float = 2) -> None:
    while True:
        await asyncio.sleep(pause_s)
        await work()


PLACES: Mapping[str, Callable[[], AbstractAsyncContextManager[Place]]] = {
    "discord": discord,
    "email": email,
    "matrix": matrix,
    "mattermost": mattermost,
    "signal": signal,
    "slack": slack,
    "sms": sms,
    "whatsapp": whatsapp,
}
QUICK = frozenset({"email", "mattermost", "slack", "sms", "whatsapp"})
"""Those that are through with some messages within 20 seconds."""


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need_backend("bubblewrap", tmp_path_factory.mktemp("probe"))
    return tmp_path_factory.mktemp("home")


@pytest.mark.parametrize(
    ("name", "messages", "kills"),
    [
        *(pytest.param(name, *SOME, marks=pytest.mark.timeout(120)) for name in sorted(QUICK)),
        *(
            pytest.param(name, *MANY, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])
            for name in PLACES
        ),
    ],
)
async def test_each_message_is_answered_once(
    name: str, messages: int, kills: int, model: ModelProcess, folder: Path
) -> None:
    dice, answered, lost = random.Random(1), Counter[str](), list[str]()
    async with PLACES[name]() as place:
        config = sandboxed("bubblewrap")
        deployment = await asyncio.to_thread(
            lambda: one_process(folder, model.url, config, **place.environ)
        )
        try:
            await asyncio.to_thread(deployment.start)
            async with asyncio.TaskGroup() as group:
                for chat in place.chats:
                    questions = _questions(chat, messages)
                    group.create_task(_talk(place, chat, questions, answered, lost))
                for number in range(1, kills + 1):
                    wanted = number * messages // (kills + 1)
                    await until(lambda wanted=wanted: answered.total() >= wanted, PATIENCE_S)
                    await asyncio.sleep(dice.uniform(0, 0.5))
                    await asyncio.to_thread(deployment.kill)
                    await asyncio.to_thread(deployment.start)
            await asyncio.to_thread(deployment.stop)
        finally:
            await asyncio.to_thread(deployment.kill)
        assert len(lost) <= LOST_WITH_A_KILL * kills, lost
        for chat in place.chats:
            said = Counter(text for text in place.texts(chat) if text != PLACEHOLDER)
            assert {text.removeprefix(MARK) for text in said} == {
                f"re: {text}" for text in _questions(chat, messages)
            }
            again = {f"re: {text}" for text in lost}
            unmarked = [
                n for text, n in said.items() if not text.startswith(MARK) and text not in again
            ]
            assert max(unmarked, default=1) == 1, "nothing is there twice without a mark"
            assert place.may_repeat or not any(text.startswith(MARK) for text in said)


def _questions(chat: str, messages: int) -> Sequence[str]:
    return [f"job {chat}/{number}" for number in range(messages // CHATS)]


async def _talk(
    place: Place, chat: str, questions: Sequence[str], answered: Counter[str], lost: list[str]
) -> None:
    for text in questions:
        await place.say(chat, text)
        is_shown = partial(_is_shown, place, chat, {f"re: {text}", f"{MARK}re: {text}"})
        while place.loses:
            try:
                await until(is_shown, REPEAT_AFTER_S, 0.05)
            except TimeoutError:
                lost.append(text)
                await place.say(chat, text)
            else:
                break
        await until(is_shown, PATIENCE_S, 0.05)
        answered[chat] += 1


def _is_shown(place: Place, chat: str, wanted: set[str]) -> bool:
    return not wanted.isdisjoint(place.texts(chat))
