"""What Discord sends may be anything: the events after it are received all the same."""

import asyncio
import copy
import os
import random
from contextlib import suppress
from typing import Any

import pytest

from gateway_service.errors import OutcomeUnknown
from gateway_service.messages import MessageEvent
from gateway_service.platforms.discord.platform import DiscordPlatform
from tests.fakes.discord import CHANNEL, THREAD, FakeDiscord, fake_discord, user
from tests.fakes.discord_rules import BOT, TOKEN
from tests.fakes.sink import Collected
from tests.support.executors import until

EVENTS = int(os.environ.get("HERMES_FUZZED", "1500"))
VALUES: tuple[Any, ...] = (
    *(None, "", 0, -1, 1e308, True, [], {}, [None], {"a": 1}),
    *("x" * 3000, "\u202e\u200b", "9" * 40, f"<@{BOT}>", "2026-01-01"),
)


def mutated(dice: random.Random, value: Any) -> Any:
    """A copy of which some part is missing or of another kind."""
    whole: Any = copy.deepcopy(value)
    node: Any = whole
    while True:
        is_list = isinstance(node, list)
        keys: list[Any] = [*range(len(node))] if is_list else [*node]
        key = dice.choice(keys)
        if isinstance(node[key], dict | list) and node[key] and dice.random() < 0.7:
            node = node[key]
        elif not is_list and dice.random() < 0.3:
            del node[key]
            return whole
        else:
            node[key] = dice.choice(VALUES)
            return whole


def examples(server: FakeDiscord) -> list[tuple[str, dict[str, Any]]]:
    """One event of each kind that is read."""
    quoted = server.write("5", "8", "quoted", {})
    reference = {"message_id": quoted["id"], "channel_id": "5", "type": 0}
    file = {"id": "31", "filename": "a.ogg", "size": 2, "url": "x", "proxy_url": "x"}
    about = {"referenced_message": quoted, "attachments": [{**file, "content_type": "audio/ogg"}]}
    direct = server.write("5", "7", "see", {"type": 19, "message_reference": reference, **about})
    addressed = server.told(server.write(CHANNEL, "7", f"<@{BOT}> see <#{THREAD}>", {}))
    pressed: dict[str, Any] = {
        "id": "1",
        "application_id": BOT,
        "type": 3,
        "token": "t",
        "version": 1,
        "channel_id": "5",
        "channel": server.channel("5"),
        "attachment_size_limit": 1,
        "user": user("7"),
        "data": {"custom_id": "a", "component_type": 2},
        "message": direct,
    }
    option = {"name": "text", "type": 3, "value": "x"}
    command = {"id": "1", "name": "status", "type": 1, "options": [option]}
    return [
        ("MESSAGE_CREATE", direct),
        ("MESSAGE_CREATE", addressed),
        ("MESSAGE_UPDATE", {**direct, "edited_timestamp": direct["timestamp"]}),
        ("INTERACTION_CREATE", pressed),
        ("INTERACTION_CREATE", {**pressed, "type": 2, "data": command}),
        ("GUILD_CREATE", server.guilds()[0]),
        ("THREAD_CREATE", server.channel(THREAD)),
    ]


@pytest.mark.timeout(3600 if EVENTS > 1500 else 60)
async def test_nothing_that_is_sent_ends_the_connection() -> None:
    dice, sink = random.Random(1), Collected()
    async with fake_discord() as server:
        server.buckets.limit = server.buckets.in_all = 10_000
        platform = DiscordPlatform(TOKEN, server.url, people=["7"])
        async with platform, asyncio.TaskGroup() as group:
            listening = group.create_task(_listen(platform, sink))
            await until(lambda: server.calls["history"])
            kinds = examples(server)
            for _ in range(EVENTS):
                event, data = dice.choice(kinds)
                for _ in range(dice.randint(1, 3)):
                    data = mutated(dice, data)
                await server.gateway.tell(event, data)
            await server.say("5", "readable")
            await until(lambda: _is_there(sink), max(60, EVENTS / 50))
            listening.cancel()
        assert server.gateway.identified == 1


async def _listen(platform: DiscordPlatform, sink: Collected) -> None:
    while True:
        # The history of what is no channel cannot be had.
        with suppress(OutcomeUnknown):
            await platform.listen(sink)


def _is_there(sink: Collected) -> bool:
    return any(
        isinstance(each, MessageEvent) and each.text == "readable" for each in sink.events[-50:]
    )
