"""How Discord is kept from refusing a bot that asks too much."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from gateway_service.errors import HermesError, OutcomeUnknown, RateLimited
from gateway_service.messages import Content
from gateway_service.platforms.base import Destination
from gateway_service.platforms.discord import listener
from gateway_service.platforms.discord.platform import DiscordPlatform
from tests.fakes.discord import FakeDiscord, fake_discord
from tests.fakes.discord_rules import TOKEN
from tests.fakes.sink import Collected


@pytest.fixture
async def server() -> AsyncGenerator[FakeDiscord]:
    async with fake_discord() as running:
        yield running


def connect(server: FakeDiscord) -> DiscordPlatform:
    return DiscordPlatform(TOKEN, server.url)


async def test_the_history_is_read_on_when_a_limit_is_over(server: FakeDiscord) -> None:
    await server.say("5", "one")
    server.faults.planned["history"].append("limited")
    async with DiscordPlatform(TOKEN, server.url, people=["7"]) as platform:
        assert len(await Collected().take(platform, 1)) == 1
    assert server.gateway.identified == 1


async def test_a_history_that_cannot_be_had_holds_up_nothing(server: FakeDiscord) -> None:
    server.faults.planned["history"] += ["broken"] * 100
    sink = Collected()
    async with DiscordPlatform(TOKEN, server.url, people=["7"]) as platform:
        for _ in range(listener.MOST_ATTEMPTS - 1):
            with pytest.raises(OutcomeUnknown):
                await platform.listen(sink)
        await server.say("5", "one")
        assert len(await sink.take(platform, 1)) == 1


async def test_the_last_sessions_of_a_day_are_not_used_up(server: FakeDiscord) -> None:
    server.sessions_left = 20
    async with connect(server) as platform:
        with pytest.raises(RateLimited) as limited:
            await platform.listen(Collected())
    assert (limited.value.wait_s, server.gateway.identified) == (9, 0)


async def test_a_rate_limit_is_told_at_once(server: FakeDiscord) -> None:
    async with connect(server) as platform:
        server.faults.planned["create"] += ["limited", "broken"]
        async with asyncio.timeout(0.9):
            with pytest.raises(RateLimited):
                await platform.send(Destination("5"), Content("a"), "key-1")
            with pytest.raises(HermesError):
                await platform.send(Destination("5"), Content("a"), "key-1")
    assert server.texts("5") == []


async def test_many_requests_at_once_stay_within_the_limit_of_all(server: FakeDiscord) -> None:
    server.direct |= {f"{number}": "8" for number in range(1000, 1400)}

    async def send(chat_id: str) -> bool:
        try:
            await platform.send(Destination(chat_id), Content("a"), f"key-{chat_id}")
        except RateLimited:
            return False
        return True

    async with connect(server) as platform:
        begun = asyncio.get_running_loop().time()
        sent = await asyncio.gather(*map(send, server.direct))
        took_s = asyncio.get_running_loop().time() - begun
    # A busy machine may delay some until they arrive with those after them.
    assert server.buckets.exceeded < 40
    assert 150 <= sent.count(True) < len(sent)
    assert took_s < 9
