"""Targets: chats by name, home channels, and all of them; and how accounts are connected."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from hermes.common.v1.origin_pb2 import Origin
from hermes.gateway.v1.delivery_pb2 import DeliverRequest, DeliverResponse
from hermes.gateway.v1.delivery_pb2_grpc import DeliveryServiceStub
from hermes.gateway.v1.directory_pb2 import Channel, ListChannelsRequest
from hermes.gateway.v1.directory_pb2_grpc import DirectoryServiceStub
from hermes.gateway.v1.platform_pb2 import (
    PLATFORM_STATE_CONNECTED,
    PLATFORM_STATE_DISCONNECTED,
    ListPlatformsRequest,
    PlatformAccount,
)
from hermes.gateway.v1.platform_pb2_grpc import PlatformServiceStub
from tests.fakes.model import fake_model
from tests.fakes.telegram import TOKEN, FakeTelegram, fake_telegram
from tests.integration.gateway_parts import Hermes, hermes
from tests.integration.test_gateway_conversation import ECHO
from tests.integration.test_gateway_rights import asked

ADA, EVE = 7, 9
FAMILY: dict[str, Any] = {"chat": {"id": -5, "type": "group", "title": "Family\n & friends"}}


class Caller:
    """Somebody who sends messages."""

    def __init__(self, running: Hermes) -> None:
        channel = running.operator.to("gateway")
        self._deliveries = DeliveryServiceStub(channel)
        self._directory = DirectoryServiceStub(channel)
        self._platforms = PlatformServiceStub(channel)
        self._count = 0

    async def send(self, target: str, text: str, origin: Origin | None = None) -> DeliverResponse:
        self._count += 1
        request = DeliverRequest(
            delivery_id=f"dlv_{self._count}", target=target, text=text, origin=origin
        )
        return await self._deliveries.Deliver(request)

    async def refusal(self, target: str, origin: Origin | None = None) -> str:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await self.send(target, "hello", origin)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        return caught.value.details() or ""

    async def channels(self) -> list[Channel]:
        return [*(await self._directory.ListChannels(ListChannelsRequest())).channels]

    async def account(self) -> PlatformAccount:
        [found] = (await self._platforms.ListPlatforms(ListPlatformsRequest())).accounts
        return found

    async def account_in(self, state: int) -> PlatformAccount:
        """The account once it is in a state."""
        async with asyncio.timeout(20):
            while True:
                if (found := await self.account()).state == state:
                    return found
                await asyncio.sleep(0.05)


@asynccontextmanager
async def bot(
    folder: Path, telegram: FakeTelegram, **environ: str
) -> AsyncGenerator[tuple[Caller, Hermes]]:
    """A bot that only Ada may talk to."""
    given = {
        "TELEGRAM_BOT_TOKEN": TOKEN,
        "TELEGRAM_BASE_URL": telegram.url,
        "TELEGRAM_ALLOWED_USERS": "7",
        **environ,
    }
    async with fake_model(ECHO) as model, hermes(folder, model.url, "", given) as running:
        yield Caller(running), running


async def test_chats_are_named_once_somebody_has_written_there(tmp_path: Path) -> None:
    async with fake_telegram() as telegram, bot(tmp_path, telegram) as (caller, _):
        assert "chats are known once" in await caller.refusal("telegram:#family & friends")
        await asked(telegram, ADA, "@hermes_bot hi", **FAMILY)
        await telegram.say(EVE, "hi", user_id=EVE)
        await asked(telegram, ADA, "/help")
        assert {(each.target, each.name, each.chat_type) for each in await caller.channels()} == {
            ("telegram:-5", "Family & friends", "group"),
            ("telegram:7", "Ada", "dm"),
        }
        sent = await caller.send("telegram:#family & Friends", "Dinner.")
        assert [*sent.targets] == ["telegram:-5"]
        await telegram.until(lambda: telegram.texts(-5)[-1] == "Dinner.")
        assert "there is #" in await caller.refusal("telegram:#work")
        assert "matrix is not connected here" in await caller.refusal("matrix:#family")
        assert [*(await caller.send("telegram:-5:17", "x")).targets] == ["telegram:-5:17"]
        origin = Origin(platform="telegram", chat_id="7")
        assert [*(await caller.send("", "x", origin)).targets] == ["telegram:7"]
        assert "no chat that the request came from" in await caller.refusal("origin")
        assert [*(await caller.send("cli", "x")).targets] == ["cli:terminal"]


async def test_the_home_channel_is_chosen_in_a_chat_or_configured(tmp_path: Path) -> None:
    async with fake_telegram() as telegram:
        async with bot(tmp_path, telegram) as (caller, _):
            for target in ("telegram", "home", "all"):
                assert "/sethome" in await caller.refusal(target)
            assert "is now the home channel of telegram" in await asked(
                telegram, ADA, "/sethome", **FAMILY
            )
            assert [each.is_home for each in await caller.channels()] == [True]
            for target in ("telegram", "home", "all"):
                assert [*(await caller.send(target, target)).targets] == ["telegram:-5"]
            await telegram.until(lambda: telegram.texts(-5)[-1] == "all")
            await telegram.say(-5, "moved", migrate_to_chat_id=-1005, **FAMILY)
            async with asyncio.timeout(20):
                while [*(await caller.send("home", "x")).targets] != ["telegram:-1005"]:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
        async with bot(tmp_path, telegram, TELEGRAM_HOME_CHANNEL="66:3") as (caller, _):
            assert [*(await caller.send("telegram", "x")).targets] == ["telegram:-1005"]
            answer = await asked(telegram, ADA, "/sethome clear")
            assert answer == "The home channel of telegram is now telegram:66:3 from the settings."
            assert [*(await caller.send("telegram", "x")).targets] == ["telegram:66:3"]


async def test_everybody_can_see_how_an_account_is_connected(tmp_path: Path) -> None:
    async with fake_telegram() as telegram:
        async with bot(tmp_path, telegram) as (caller, _):
            await asked(telegram, ADA, "hello")
            found = await caller.account_in(PLATFORM_STATE_CONNECTED)
            assert (found.platform, found.account_id) == ("telegram", "4242")
            assert found.HasField("connect_time")
            assert found.HasField("last_event_time")
            assert found.holder
            assert "**telegram**" not in await asked(telegram, ADA, "/platforms")
            assert "telegram 4242: connected for" in telegram.texts(ADA)[-1]
        given = {"TELEGRAM_BOT_TOKEN": "4242:revoked"}
        async with bot(tmp_path, telegram, **given) as (caller, _):
            found = await caller.account_in(PLATFORM_STATE_DISCONNECTED)
            async with asyncio.timeout(20):
                while not found.problem:
                    await asyncio.sleep(0.05)
                    found = await caller.account_in(PLATFORM_STATE_DISCONNECTED)
            assert "TELEGRAM_BOT_TOKEN" in found.problem or "token" in found.problem
