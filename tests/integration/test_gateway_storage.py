"""The gateway's statements, which mean the same on both kinds of database."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from msgspec.structs import replace
from prometheus_client import CollectorRegistry
from sqlalchemy import Connection

from gateway_service.chats.directory import Directory
from gateway_service.messages import (
    CLI,
    Address,
    BusyMode,
    ButtonPress,
    ChatMove,
    Content,
    MessageEvent,
    Source,
    TurnRequest,
)
from gateway_service.metrics import GatewayMetrics
from gateway_service.outbox.retention import KEEP_UNUSED, keep_house
from gateway_service.platforms.base import Traits
from gateway_service.platforms.rate_limits import Rate
from gateway_service.servicer.delivery import DeliveryServicer
from gateway_service.storage import (
    attachments,
    channels,
    chats,
    inbox,
    migrations,
    notifications,
    outbox,
)
from gateway_service.storage.attachments import FileKey
from gateway_service.storage.inbox import Account
from gateway_service.storage.outbox import Delivery, Kind, State
from hermes.common.v1.origin_pb2 import Origin
from hermes.gateway.v1 import delivery_pb2
from services.clock import SystemClock
from services.database import Database
from services.database.migrations import prepare
from services.errors import AlreadyExists
from services.lifecycle import Workers
from services.redaction.redactor import Redactor
from services.telemetry.metrics import Meter
from tests.fakes.platform import MemoryPlatform

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(minutes=1)
ACCOUNT = Account("default", "telegram", "42")
CHAT = Address("default", "telegram", "42", "5")
SOURCE = Source("telegram", "5", user_id="7", user_name="Ada")
ADA = Source(CLI, "s1", user_name="ada")
ORDER = TurnRequest("trn_1", "default", "s1", ADA, "hi", "/src", "small")


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """The gateway's tables, of each kind in turn."""
    async with Database(database_url, "gateway") as opened:
        await prepare(opened, migrations)
        yield opened


async def test_an_event_is_stored_once_and_taken_in_order(database: Database) -> None:
    said = MessageEvent("42:1", SOURCE, "hi")
    pressed = ButtonPress("42:2", SOURCE, "q1", "apr_1:once")
    events = {"42:1": ("lane", said), "42:2": ("lane", pressed)}
    assert await database.write(lambda conn: inbox.add(conn, ACCOUNT, events, NOW)) == 2
    assert await database.write(lambda conn: inbox.add(conn, ACCOUNT, events, LATER)) == 0
    assert await database.read(lambda conn: inbox.lanes(conn, "telegram", "42")) == ["lane"]
    assert await database.read(lambda conn: inbox.lanes(conn, "telegram", "43")) == []

    def read(conn: Connection) -> list[inbox.Waiting]:
        return [*inbox.waiting_of_lane(conn, "telegram", "42", "lane", 1)]

    [first] = await database.read(read)
    assert (first.event, first.received_at) == (said, NOW)
    begun = TurnRequest("trn_1", "default", "s1", SOURCE, "hi", busy_mode=BusyMode.QUEUE)
    await database.write(lambda conn: inbox.accept(conn, first, begun, NOW))
    [second] = await database.read(read)
    assert second.event == pressed
    await database.write(lambda conn: inbox.ignore(conn, second.sequence, NOW))
    [(key, order)] = await database.read(lambda conn: inbox.accepted(conn, "telegram", "42"))
    assert (key, order) == ("lane", begun)
    assert await database.read(lambda conn: inbox.live_turns(conn, "default", "s1")) == ["trn_1"]
    await database.write(lambda conn: inbox.close(conn, "trn_1", NOW))
    assert await database.read(lambda conn: inbox.accepted(conn, "telegram", "42")) == []
    assert await database.write(lambda conn: inbox.forget(conn, NOW)) == 0
    assert await database.write(lambda conn: inbox.forget(conn, LATER)) == 2


async def test_what_is_known_of_a_chat_follows_it(database: Database) -> None:
    move = ChatMove("-5", "-1005")
    keys = {"group:-5:7": "s1", "group:-5:3:8": "s2", "group:-55:7": "s3", "group:-1005:3:8": "s4"}
    old = replace(CHAT, chat_id="-5")
    contents = [Content("shown"), Content("not yet")]

    def write(conn: Connection) -> None:
        for key, session_id in keys.items():
            chats.put(conn, "default", f"agent:main:telegram:{key}", session_id, NOW)
        said = MessageEvent("42:1", SOURCE, "hi")
        inbox.add(conn, ACCOUNT, {"42:1": ("agent:main:telegram:group:-5:7", said)}, NOW)
        outbox.add(conn, Delivery("d1", old, contents), NOW)
        part = outbox.begin(conn, "telegram", "42", "-5", NOW)
        assert part is not None
        outbox.settle(conn, replace(part, message_id="m1"), State.SENT, NOW)
        outbox.begin(conn, "telegram", "42", "-5", NOW)
        for _ in range(2):
            channels.follow(conn, ACCOUNT, move)

    await database.write(write)

    def read(conn: Connection) -> dict[str, str | None]:
        named = ("group:-1005:7", "group:-5:7", "group:-55:7", "group:-1005:3:8")
        return {
            key: chats.session_of(conn, "default", f"agent:main:telegram:{key}") for key in named
        }

    assert await database.read(read) == {
        "group:-1005:7": "s1",
        "group:-5:7": None,
        "group:-55:7": "s3",
        "group:-1005:3:8": "s4",
    }
    lanes = await database.read(lambda conn: inbox.lanes(conn, "telegram", "42"))
    assert lanes == ["agent:main:telegram:group:-1005:7"]
    part = await database.write(lambda conn: outbox.begin(conn, "telegram", "42", "-1005", NOW))
    assert part is not None
    assert part.content == contents[1]
    assert await database.read(lambda conn: outbox.message_id(conn, "d1")) is None


async def test_a_clients_message_keeps_its_first_turn(database: Database) -> None:
    again = replace(ORDER, turn_id="trn_2", session_id="s2")
    theirs = replace(again, profile="other")
    accepted = [
        await database.write(
            lambda conn, order=order: inbox.accept_client(conn, order, "msg_1", "key", NOW)
        )
        for order in (ORDER, again)
    ]
    assert accepted == [(ORDER, True), (ORDER, True)]
    with pytest.raises(AlreadyExists):
        await database.write(lambda conn: inbox.accept_client(conn, theirs, "msg_1", "key", NOW))
    await database.write(lambda conn: inbox.close(conn, "trn_1", NOW))
    closed = await database.write(
        lambda conn: inbox.accept_client(conn, again, "msg_1", "key", NOW)
    )
    assert closed == (ORDER, False)


async def test_what_is_shown_anew_while_it_is_sent_is_sent_again(database: Database) -> None:
    answer = Delivery("trn_1", CHAT, [Content("…")], Kind.ANSWER)
    await database.write(lambda conn: outbox.add(conn, answer, NOW))
    part = await database.write(lambda conn: outbox.begin(conn, "telegram", "42", "5", NOW))
    assert part is not None
    final = Content("the answer")
    assert await database.write(lambda conn: outbox.show(conn, "trn_1", final, NOW))
    assert not await database.write(lambda conn: outbox.show(conn, "trn_1", Content("no"), NOW))
    sent = replace(part, message_id="m1")
    await database.write(lambda conn: outbox.settle(conn, sent, State.SENT, NOW))
    assert await database.read(lambda conn: outbox.message_id(conn, "trn_1")) == "m1"
    part = await database.write(lambda conn: outbox.begin(conn, "telegram", "42", "5", NOW))
    assert part is not None
    assert (part.content, part.message_id, part.version) == (final, "m1", 1)


async def test_the_first_of_a_chat_holds_up_the_others(database: Database) -> None:
    for name in ("one", "two"):
        delivery = Delivery(name, CHAT, [Content(name)])
        await database.write(lambda conn, it=delivery: outbox.add(conn, it, NOW))
    part = await database.write(lambda conn: outbox.begin(conn, "telegram", "42", "5", NOW))
    assert part is not None
    await database.write(
        lambda conn: outbox.settle(conn, part, State.PENDING, NOW, next_attempt_at=LATER)
    )
    waiting = await database.read(lambda conn: outbox.waiting_chats(conn, "telegram", "42"))
    assert waiting == {"5": LATER}
    assert not await database.write(lambda conn: outbox.begin(conn, "telegram", "42", "5", NOW))
    assert await database.read(lambda conn: outbox.backlog(conn, CLI)) == (2, NOW)
    assert await database.write(lambda conn: outbox.forget(conn, LATER)) == 0
    again = await database.write(lambda conn: outbox.begin(conn, "telegram", "42", "5", LATER))
    assert again is not None
    assert (again.delivery_id, again.attempts) == ("one", 1)
    await database.write(lambda conn: outbox.settle(conn, again, State.SENT, NOW))
    assert await database.write(lambda conn: outbox.forget(conn, LATER)) == 1


async def test_news_are_told_by_one_and_again_if_that_broke_off(database: Database) -> None:
    to = Address("default", CLI, "", "s1")
    await database.write(lambda conn: outbox.add(conn, Delivery("d", to, [Content("new")]), NOW))
    [part] = await database.read(lambda conn: notifications.waiting(conn, "default", NOW))
    assert not part.uncertain
    assert not await database.read(lambda conn: notifications.waiting(conn, "other", NOW))
    assert await database.write(lambda conn: notifications.begin(conn, part, LATER))
    assert not await database.write(lambda conn: notifications.begin(conn, part, LATER))
    assert not await database.read(lambda conn: notifications.waiting(conn, "default", NOW))
    [again] = await database.read(
        lambda conn: notifications.waiting(conn, "default", LATER + timedelta(seconds=1))
    )
    assert again.uncertain
    assert again.shown.text.endswith("\nnew")
    assert await database.read(lambda conn: outbox.backlog(conn, CLI)) == (0, None)


async def test_a_file_is_there_until_its_delivery_is_done(database: Database) -> None:
    keys = [FileKey(delivery_id, "default", "00") for delivery_id in ("unused", "sent", "waiting")]

    def store(conn: Connection) -> None:
        for key in (*keys, *keys):
            attachments.put(conn, key, b"ab", NOW)
        for delivery_id in ("sent", "waiting"):
            outbox.add(conn, Delivery(delivery_id, CHAT, [Content("h\0i")]), NOW)

    def kept(conn: Connection) -> list[str]:
        return [key.delivery_id for key in keys if attachments.read_data(conn, key) == b"ab"]

    await database.write(store)
    assert await database.read(lambda conn: attachments.find_length(conn, keys[0])) == 2
    other = FileKey("unused", "other", "00")
    assert await database.read(lambda conn: attachments.find_length(conn, other)) is None
    assert await database.write(lambda conn: attachments.drop_sent(conn, "sent")) == 0
    part = await database.write(lambda conn: outbox.begin(conn, "telegram", "42", "5", NOW))
    assert part is not None
    assert await database.write(lambda conn: attachments.drop_sent(conn, "sent")) == 0
    await database.write(lambda conn: outbox.settle(conn, part, State.SENT, NOW))
    assert await database.write(lambda conn: attachments.drop_sent(conn, "sent")) == 1
    assert await database.read(kept) == ["unused", "waiting"]
    assert await database.write(lambda conn: attachments.forget(conn, NOW)) == 0
    assert await database.write(lambda conn: attachments.forget(conn, LATER)) == 1
    assert await database.read(kept) == ["waiting"]


async def test_a_chat_that_cannot_be_shown_a_file_is_told_what_it_lacks(database: Database) -> None:
    traits = Traits(message_units=1000, rate=Rate(1.0, 1), caption_units=100, file_bytes=3)
    platforms, clock = {"memory": MemoryPlatform(traits=traits)}, SystemClock()
    directory = Directory({"memory": "1"}, {})
    servicer = DeliveryServicer(database, clock, platforms, directory, Redactor())
    sha256 = hashlib.sha256(b"plan").digest()
    file = delivery_pb2.Attachment(name="the `plan`.pdf", length_bytes=4, sha256=sha256)
    lacks = "(A file belongs here that this chat cannot take: `the 'plan'.pdf`, 4 bytes.)"
    for delivery_id, text in (("dlv_1", "Look."), ("dlv_2", "")):
        key = FileKey(delivery_id, "default", sha256.hex())
        await database.write(lambda conn, key=key: attachments.put(conn, key, b"plan", NOW))
        request = delivery_pb2.DeliverRequest(
            delivery_id=delivery_id,
            origin=Origin(platform="memory", chat_id="5"),
            text=text,
            attachments=[file],
        )
        answer = await servicer.Deliver(request, cast("Any", None))
        assert answer.left_out_names == ["the `plan`.pdf"]
        now = clock.now()
        part = await database.write(
            lambda conn, now=now: outbox.begin(conn, "memory", "1", "5", now)
        )
        assert part is not None
        assert part.content == Content("\n\n".join(filter(None, (text, lacks))))


async def test_pictures_that_are_too_much_for_one_message_are_two(database: Database) -> None:
    traits = Traits(message_units=1000, rate=Rate(1.0, 1), file_bytes=9, album_pictures=10)
    platforms = {"memory": MemoryPlatform(traits=traits)}
    directory = Directory({"memory": "1"}, {})
    servicer = DeliveryServicer(database, SystemClock(), platforms, directory, Redactor())
    sha256 = hashlib.sha256(b"view").digest()
    file = delivery_pb2.Attachment(name="view.png", length_bytes=4, sha256=sha256)
    key = FileKey("dlv_1", "default", sha256.hex())
    await database.write(lambda conn: attachments.put(conn, key, b"view", NOW))
    request = delivery_pb2.DeliverRequest(
        delivery_id="dlv_1", origin=Origin(platform="memory", chat_id="5"), attachments=[file] * 3
    )
    assert (await servicer.Deliver(request, cast("Any", None))).delivery.part_count == 2


async def test_house_keeping_drops_files_that_nobody_delivers(database: Database) -> None:
    clock = SystemClock()
    ages = {"old": KEEP_UNUSED + timedelta(minutes=1), "new": timedelta(0)}
    keys = {name: FileKey(name, "default", "00") for name in ages}

    def store(conn: Connection) -> None:
        for name, age in ages.items():
            attachments.put(conn, keys[name], b"x", clock.now() - age)

    def kept(conn: Connection) -> list[str]:
        return [name for name, key in keys.items() if attachments.read_data(conn, key)]

    await database.write(store)
    metrics = GatewayMetrics.create(Meter(CollectorRegistry()))
    async with asyncio.timeout(20), Workers() as workers:
        workers.start("house keeping", keep_house(database, clock, metrics))
        while len(await database.read(kept)) > 1:  # noqa: ASYNC110 - rows change without an event
            await asyncio.sleep(0.02)
    assert await database.read(kept) == ["new"]
