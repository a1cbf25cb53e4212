"""Channels and streams as a client uses them, against servers that fail, drain, die and return."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from hermes.agent.v1 import turn_pb2, turn_pb2_grpc
from services.errors import FailedPrecondition, Reason, ServiceUnavailable, reason_of
from services.lifecycle import all_of
from services.rpc.addresses import UnixAddress
from services.rpc.auth import Identity
from services.rpc.channels import Channels
from services.rpc.streams import resume
from services.telemetry.logs import bind
from tests.fakes.component import Counter, running, turns
from tests.fakes.statuses import TOKEN, scripted, scripted_beside

UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


async def test_a_call_carries_the_token_and_the_ids_of_the_work(tmp_path: Path) -> None:
    async with scripted(tmp_path) as (servicer, channels):
        with bind(turn_id="trn_1", session_id="20260101_000000_abcdef", request_id="req_1"):
            await turns(channels).GetTurn(turn_pb2.GetTurnRequest())
        await turns(channels).GetTurn(turn_pb2.GetTurnRequest(), metadata=(("x-own", "1"),))
    inside, outside = servicer.metadata
    assert inside["authorization"] == f"Bearer {TOKEN}"
    assert inside["x-hermes-turn-id"] == "trn_1"
    assert inside["x-hermes-session-id"] == "20260101_000000_abcdef"
    assert inside["x-request-id"] == "req_1"
    assert "hermes-gateway" in str(inside["user-agent"])
    assert "x-hermes-turn-id" not in outside
    assert outside["x-own"] == "1"
    assert outside["authorization"] == f"Bearer {TOKEN}"


@pytest.mark.parametrize("beside", [False, True], ids=["socket", "in process"])
async def test_only_an_idempotent_call_to_an_unavailable_service_is_repeated(
    tmp_path: Path, beside: bool
) -> None:
    # A socket each: gRPC would use the connection to the one before for a moment.
    places = [tmp_path / name for name in ("one", "two", "three")]
    await all_of(asyncio.to_thread(place.mkdir) for place in places)
    at_one, at_two, at_three = (
        scripted_beside if beside else partial(scripted, place) for place in places
    )
    async with at_one(UNAVAILABLE, UNAVAILABLE) as (servicer, channels):
        await turns(channels).GetTurn(turn_pb2.GetTurnRequest())
    assert len(servicer.metadata) == 3
    async with at_two(grpc.StatusCode.ABORTED, *[UNAVAILABLE] * 4) as (servicer, channels):
        for attempts in (1, 5):
            with pytest.raises(grpc.aio.AioRpcError):
                await turns(channels).GetTurn(turn_pb2.GetTurnRequest())
            assert len(servicer.metadata) == attempts
    async with at_three(UNAVAILABLE) as (servicer, channels):
        with pytest.raises(grpc.aio.AioRpcError):
            [event async for event in turns(channels).WatchTurn(turn_pb2.WatchTurnRequest())]
    assert servicer.positions == [0]


async def test_calls_are_counted_at_the_client(tmp_path: Path) -> None:
    counter = Counter()
    async with scripted(tmp_path, None, grpc.StatusCode.ABORTED):
        addresses = {"agent": UnixAddress(tmp_path / "scripted.sock")}
        async with Channels(Identity.GATEWAY, addresses, token=TOKEN, observer=counter) as counted:
            await turns(counted).GetTurn(turn_pb2.GetTurnRequest())
            with pytest.raises(grpc.aio.AioRpcError):
                [event async for event in turns(counted).WatchTurn(turn_pb2.WatchTurnRequest())]
    assert counter.calls == [("GetTurn", "OK"), ("WatchTurn", "ABORTED")]
    assert counter.begun == ["GetTurn", "WatchTurn"]


async def test_a_channel_is_made_once_and_connects_late(tmp_path: Path) -> None:
    nowhere = UnixAddress(tmp_path / "nobody.sock")
    async with Channels(Identity.AGENT, {"executor": nowhere}, token=TOKEN) as channels:
        assert channels.to("executor") is channels.to("executor")
        assert channels.at("unix:/tmp/a.sock") is channels.at("unix:/tmp/a.sock")
        stub = turn_pb2_grpc.TurnServiceStub(channels.to("executor"))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.InterruptTurn(turn_pb2.InterruptTurnRequest(), timeout=0.5)
    assert reason_of(caught.value) is Reason.SERVICE_UNAVAILABLE


async def test_a_service_without_an_address_is_named() -> None:
    async with Channels(Identity.AGENT, {}, token=TOKEN) as channels:
        with pytest.raises(FailedPrecondition, match="the executor service"):
            channels.to("executor")


async def test_a_token_is_not_sent_to_another_machine() -> None:
    async with Channels(Identity.AGENT, {}, token=TOKEN) as channels:
        with pytest.raises(FailedPrecondition, match="needs certificates"):
            channels.at("executor.example:50051")
        assert channels.at("127.0.0.1:1") is not None


async def test_a_channel_that_is_closed_says_so(tmp_path: Path) -> None:
    async with running(tmp_path) as served:
        async with served.channels() as channels:
            stub = turns(channels)
        with pytest.raises(ServiceUnavailable, match="closed"):
            await stub.GetTurn(turn_pb2.GetTurnRequest())


async def test_a_stream_is_resumed_where_it_was_cut(tmp_path: Path) -> None:
    cuts = [UNAVAILABLE, None, UNAVAILABLE, UNAVAILABLE]
    async with scripted(tmp_path, *cuts) as (servicer, channels):
        received = [event async for event in watch_from_start(channels)]
    assert received == [1, 2, 3, 4, 5]
    # Each time from the last message on: one that ended without its last message, too.
    assert servicer.positions == [0, 1, 2, 3, 4]


async def test_a_failure_that_waiting_does_not_help_is_raised(tmp_path: Path) -> None:
    statuses = [UNAVAILABLE, grpc.StatusCode.NOT_FOUND]
    async with scripted(tmp_path, *statuses) as (servicer, channels):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            [event async for event in watch_from_start(channels)]
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    assert servicer.positions == [0, 1]


async def test_patience_has_an_end(tmp_path: Path) -> None:
    nowhere = {"agent": UnixAddress(tmp_path / "nobody.sock")}
    async with Channels(Identity.GATEWAY, nowhere, token=TOKEN) as channels:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            [event async for event in watch_from_start(channels, patience_s=0.3)]
    assert caught.value.code() is UNAVAILABLE


async def watch_from_start(
    channels: Channels, turn_id: str = "", patience_s: float | None = None
) -> AsyncGenerator[int, None]:
    """Yields a turn's sequence numbers to the fifth, as a watcher of a turn does."""
    seen = 0

    def open_call() -> "grpc.aio.UnaryStreamCall[Any, turn_pb2.WatchTurnResponse]":
        request = turn_pb2.WatchTurnRequest(turn_id=turn_id, after_sequence=seen)
        return turns(channels).WatchTurn(request)

    stream = resume(
        open_call, lambda message: message.events[0].sequence == 5, patience_s=patience_s
    )
    async with aclosing(stream) as messages:
        async for message in messages:
            seen = message.events[0].sequence
            yield seen
