"""What Discord may send, of which any part may be odd."""

import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

from gateway_service.messages import Event
from gateway_service.platforms.base import UNREADABLE
from gateway_service.platforms.discord.client import make_client
from gateway_service.platforms.discord.events import read_interaction, read_message, read_reaction
from tests.fakes.discord import CHANNEL, THREAD, FakeDiscord, user
from tests.fakes.discord_rules import BOT
from tests.support.mutations import mutated

Json = dict[str, Any]


def discord() -> Callable[[random.Random], Awaitable[Sequence[Event]]]:
    """Events with parts missing or of another kind, as discord.py and we read them."""
    server, found = FakeDiscord("http://127.0.0.1:9"), list[Event | None]()
    quoted = server.write("5", "8", "quoted", {})
    reference = {"message_id": quoted["id"], "channel_id": "5", "type": 0}
    file = {"id": "31", "filename": "a.ogg", "size": 2, "url": "x", "proxy_url": "x"}
    about = {"referenced_message": quoted, "attachments": [{**file, "content_type": "audio/ogg"}]}
    direct = server.write("5", "7", "see", {"type": 19, "message_reference": reference, **about})
    text = f"<@{BOT}> see <#{THREAD}>"
    addressed = server.told(server.write(CHANNEL, "7", text, {}))
    thumb = {"channel_id": "5", "message_id": direct["id"], "user_id": "7", "type": 0}
    thumb |= {"message_author_id": BOT, "emoji": {"id": None, "name": "👍"}}
    pressed: Json = {"id": "1", "application_id": BOT, "type": 3, "token": "t", "version": 1}
    pressed |= {"channel_id": "5", "channel": server.channel("5"), "attachment_size_limit": 1}
    pressed |= {"user": user("7"), "data": {"custom_id": "a", "component_type": 2}}
    option = {"name": "text", "type": 3, "value": "x"}
    command = {"id": "1", "name": "status", "type": 1, "options": [option]}
    kinds: list[tuple[str, Json]] = [
        ("MESSAGE_CREATE", direct),
        ("MESSAGE_CREATE", addressed),
        ("MESSAGE_UPDATE", {**direct, "edited_timestamp": direct["timestamp"]}),
        ("MESSAGE_REACTION_ADD", thumb),
        ("INTERACTION_CREATE", {**pressed, "message": direct}),
        ("INTERACTION_CREATE", {**pressed, "type": 2, "data": command}),
        ("GUILD_CREATE", server.guilds()[0]),
        ("THREAD_CREATE", server.channel(THREAD)),
    ]

    def reacted(added: Any) -> None:
        place = client.get_partial_messageable(added.channel_id)
        found.append(read_reaction(added, place, BOT))

    def edited(update: Any) -> None:
        found.append(read_message(update.message, BOT, is_new=False))

    def said(message: Any) -> None:
        found.append(read_message(message, BOT))

    def pressing(interaction: Any) -> None:
        found.append(read_interaction(interaction, BOT))

    handlers: dict[str, Callable[[Any], None]] = {
        "message": said,
        "raw_message_edit": edited,
        "raw_reaction_add": reacted,
        "interaction": pressing,
    }
    client = make_client(server.url, handlers)
    parsers = vars(client)["_connection"].parsers

    async def feed(dice: random.Random) -> Sequence[Event]:
        (event, data), _ = dice.choice(kinds), found.clear()
        with suppress(*UNREADABLE):  # the platform passes it over
            parsers[event](mutated(dice, data))
        return [each for each in found if each]

    return feed
