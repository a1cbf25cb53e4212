"""Deliveries: stored once, sent in order, marked where nobody knows whether they arrived."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from hermes.common.v1.origin_pb2 import Origin
from hermes.gateway.v1.delivery_pb2 import (
    DELIVERY_STATE_ABANDONED,
    DELIVERY_STATE_PENDING,
    DELIVERY_STATE_SENT,
    DeliverRequest,
    Delivery,
    GetDeliveryRequest,
)
from hermes.gateway.v1.delivery_pb2_grpc import DeliveryServiceStub
from services.errors import Reason, details_of, reason_of
from tests.fakes.model import answers, fake_model
from tests.fakes.telegram import TOKEN, FakeTelegram, fake_telegram
from tests.integration.gateway_parts import Hermes, client, hermes, news_reader

REPEAT = "This may be a repeat:\n"
HELLO: Mapping[str, Any] = {"text": "Hello!"}


class Sender:
    """Somebody who delivers."""

    def __init__(self, running: Hermes) -> None:
        self._stub = DeliveryServiceStub(running.operator.to("gateway"))

    async def deliver(
        self,
        delivery_id: str,
        text: str,
        chat_id: str = "1",
        platform: str = "telegram",
        thread_id: str = "",
    ) -> Delivery:
        origin = Origin(platform=platform, chat_id=chat_id, thread_id=thread_id)
        request = DeliverRequest(delivery_id=delivery_id, origin=origin, text=text)
        return (await self._stub.Deliver(request)).delivery

    async def get(self, delivery_id: str, profile: str = "") -> Delivery:
        request = GetDeliveryRequest(delivery_id=delivery_id, profile=profile)
        return (await self._stub.GetDelivery(request)).delivery

    async def ended(self, delivery_id: str) -> Delivery:
        """The delivery once it is sent or given up."""
        while True:
            found = await self.get(delivery_id)
            if found.state != DELIVERY_STATE_PENDING:
                return found


@asynccontextmanager
async def sender(
    folder: Path, answer: Mapping[str, Any] = HELLO
) -> AsyncGenerator[tuple[FakeTelegram, Sender, Hermes]]:
    """A gateway with a bot, and somebody who delivers through it."""
    async with fake_telegram() as telegram, fake_model(answers(answer)) as model:
        environ = {
            "TELEGRAM_BOT_TOKEN": TOKEN,
            "TELEGRAM_BASE_URL": telegram.url,
            "TELEGRAM_ALLOWED_USERS": "7",
        }
        async with hermes(folder, model.url, environ=environ) as running:
            yield telegram, Sender(running), running


async def test_what_is_only_checked_is_not_sent(tmp_path: Path) -> None:
    async with sender(tmp_path) as (telegram, sends, running):
        stub = DeliveryServiceStub(running.operator.to("gateway"))

        def check(platform: str) -> DeliverRequest:
            to = Origin(platform=platform, chat_id="1")
            return DeliverRequest(delivery_id="d", origin=to, text="?", validate_only=True)

        assert not (await stub.Deliver(check("telegram"))).HasField("delivery")
        with pytest.raises(grpc.aio.AioRpcError, match="matrix is not connected here"):
            await stub.Deliver(check("matrix"))
        await sends.deliver("d", "The report.")
        await telegram.until(lambda: telegram.texts(1) == ["The report."])


async def test_a_delivery_is_sent_once_however_often_it_is_asked_for(tmp_path: Path) -> None:
    async with sender(tmp_path) as (telegram, sends, _):
        for _ in range(3):
            stored = await sends.deliver("dlv_1", "The *report*.")
            assert (stored.delivery_id, stored.part_count) == ("dlv_1", 1)
        ended = await sends.ended("dlv_1")
        assert (ended.state, ended.sent_part_count) == (DELIVERY_STATE_SENT, 1)
        assert telegram.texts(1) == ["The report."]
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await sends.deliver("dlv_1", "Something else.\n" * 1000)
        assert reason_of(caught.value) is Reason.ALREADY_EXISTS
        assert (await sends.get("dlv_1")).part_count == 1


async def test_parts_come_in_order_also_after_failures(tmp_path: Path) -> None:
    async with sender(tmp_path) as (telegram, sends, _):
        telegram.faults.planned["sendMessage"] = ["", "limited", "limited"]
        text = "\n".join(f"{number} " + "x" * 95 for number in range(100))
        assert (await sends.deliver("dlv_1", text)).part_count == 3
        ended = await sends.ended("dlv_1")
        assert (ended.state, ended.sent_part_count) == (DELIVERY_STATE_SENT, 3)
        assert "\n".join(telegram.texts(1)) == text


async def test_what_telegram_refuses_is_given_up_with_the_reason(tmp_path: Path) -> None:
    async with sender(tmp_path) as (telegram, sends, running):
        telegram.faults.planned["sendMessage"] = ["forbidden"]
        await sends.deliver("dlv_1", "The report.")
        await sends.deliver("dlv_2", "The next.", chat_id="2")
        ended = await sends.ended("dlv_1")
        assert ended.state == DELIVERY_STATE_ABANDONED
        assert "blocked" in ended.last_error
        assert (await sends.ended("dlv_2")).state == DELIVERY_STATE_SENT
        given_up = {"platform": "telegram", "outcome": "abandoned"}
        assert await running.counted("hermes_deliveries_total", **given_up) == 1
        async with client(running, news_reader()) as terminal:
            await terminal.until(lambda heard: heard.news() != [])
            [told] = terminal.news()
            assert told.startswith("Not delivered to telegram:1 (")
            assert told.endswith("\n\nThe report.")


async def test_formatting_that_is_not_understood_is_left_out(tmp_path: Path) -> None:
    async with sender(tmp_path) as (telegram, sends, _):
        telegram.faults.planned["sendMessage"] = ["unformatted"]
        await sends.deliver("dlv_1", "The **report**.")
        assert (await sends.ended("dlv_1")).state == DELIVERY_STATE_SENT
        assert telegram.texts(1) == ["The **report**."]


async def test_only_connected_platforms_are_delivered_to(tmp_path: Path) -> None:
    async with sender(tmp_path) as (_, sends, _):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await sends.deliver("dlv_1", "hello", platform="pigeon")
        details = details_of(caught.value)
        assert details.reason is Reason.INVALID_ARGUMENT
        assert "cli, telegram" in details.message
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await sends.deliver("dlv_1", "  ", chat_id="5" * 300)
        assert set(details_of(caught.value).fields) == {"origin", "text"}
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await sends.deliver("dlv_1", "hello", chat_id="")
        assert set(details_of(caught.value).fields) == {"target"}


async def test_news_wait_for_a_reader(tmp_path: Path) -> None:
    async with sender(tmp_path) as (_, sends, running):
        async with client(running) as talking:
            session_id = await talking.open()
        await sends.deliver("dlv_1", "While you were away.", session_id, "cli")
        async with client(running) as other:
            await other.ask("hi")
            assert other.news() == []
        assert (await sends.get("dlv_1")).state == DELIVERY_STATE_PENDING
        async with client(running, news_reader()) as reader:
            await reader.until(lambda it: it.news() == ["While you were away."])
            assert (await sends.ended("dlv_1")).state == DELIVERY_STATE_SENT
        async with client(running, news_reader()) as reader:
            await reader.ask("hi")
            assert reader.news() == []


async def test_news_go_to_their_session_and_else_to_the_newest(tmp_path: Path) -> None:
    async with (
        sender(tmp_path) as (_, sends, running),
        client(running, news_reader()) as older,
        client(running, news_reader()) as newer,
    ):
        await sends.deliver("dlv_1", "for the older", await older.open(), "cli")
        await sends.deliver("dlv_2", "for whoever is there", "20200101_000000_abcdef", "cli")
        await older.until(lambda it: it.news() == ["for the older"])
        await newer.until(lambda it: it.news() == ["for whoever is there"])
        reply = await newer.command("/new")
        await sends.deliver("dlv_3", "for the new one", reply.session_id, "cli")
        await newer.until(lambda it: it.news()[-1:] == ["for the new one"])
        assert older.news() == ["for the older"]
