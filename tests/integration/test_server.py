"""A server's life: the address that it holds, the components that it runs, and its end."""

import asyncio
import os
import signal
import socket
import stat
from collections.abc import Awaitable
from pathlib import Path
from typing import Self

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from hermes.agent.v1 import turn_pb2
from services.errors import FailedPrecondition, Reason, reason_of
from services.lifecycle import Shutdown
from services.rpc.addresses import Address, TcpAddress, UnixAddress
from services.rpc.auth import Identity, new_tokens
from services.rpc.channels import Channels
from services.rpc.listeners import ListenFailed
from services.rpc.streams import open_stream
from services.runtime.server import ComponentFailed, ListenOptions, Server, serve
from tests.fakes.component import Sample, running, turns

TOKENS = new_tokens()
LOOPBACK = TcpAddress("127.0.0.1", 0)


async def test_the_socket_is_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "hermes.sock"
    async with running(tmp_path):
        mode = (await asyncio.to_thread(path.stat)).st_mode
        assert stat.S_ISSOCK(mode)
        assert stat.S_IMODE(mode) == 0o600
    assert not await asyncio.to_thread(path.exists)


async def test_a_second_server_on_the_socket_is_refused_and_the_first_serves_on(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as first:
        with pytest.raises(ListenFailed) as caught:
            async with running(tmp_path):
                pass
        assert f"in use by process {os.getpid()}" in caught.value.message
        assert "\n" not in caught.value.message
        async with first.channels() as channels:
            assert await turns(channels).GetTurn(turn_pb2.GetTurnRequest()) is not None


async def test_the_socket_of_a_killed_process_is_replaced(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "hermes.sock"))
    async with running(tmp_path) as second, second.channels() as channels:
        assert await turns(channels).GetTurn(turn_pb2.GetTurnRequest()) is not None


async def test_a_file_in_the_way_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "hermes.sock"
    await asyncio.to_thread(path.write_text, "precious")
    with pytest.raises(ListenFailed, match="is in the way and is not a socket"):
        async with running(tmp_path):
            pass
    assert await asyncio.to_thread(path.read_text) == "precious"


async def test_a_port_in_use_is_said_in_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        listen = ListenOptions((TcpAddress("127.0.0.1", port),), tokens=TOKENS)
        with pytest.raises(ListenFailed) as caught:
            async with Server([], listen):
                pass
    assert caught.value.message == (
        f"cannot listen on 127.0.0.1:{port}: it is in use; "
        "stop the program that listens there, or choose another port"
    )
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("address", "tokens", "problem"),
    [
        (TcpAddress("0.0.0.0", 0), TOKENS, "needs certificates"),
        (TcpAddress("192.0.2.1", 0), TOKENS, "needs certificates"),
        (LOOPBACK, None, "needs certificates or tokens"),
        (UnixAddress(Path("/tmp/never.sock")), None, "needs certificates or tokens"),
    ],
)
def test_nothing_is_served_that_nobody_could_be_identified_on(
    address: Address, tokens: dict[Identity, str] | None, problem: str
) -> None:
    with pytest.raises(FailedPrecondition, match=problem):
        Server([], ListenOptions((address,), tokens=tokens))


def test_two_components_cannot_rule_one_method() -> None:
    with pytest.raises(ValueError, match="GetTurn"):
        Server([Sample("one"), Sample("two")], ListenOptions((LOOPBACK,), tokens=TOKENS))


async def test_a_component_goes_through_its_life_in_order(tmp_path: Path) -> None:
    sample, shutdown = Sample(), Shutdown()
    addresses: list[Address] = []

    async def ready(bound: tuple[Address, ...]) -> None:
        addresses.extend(bound)
        sample.steps.append("ready")
        shutdown.request("done")

    path = UnixAddress(tmp_path / "hermes.sock")
    await serve(
        [sample], ListenOptions((path, LOOPBACK), tokens=TOKENS), ready=ready, shutdown=shutdown
    )
    assert sample.steps == ["enter", "register", "ready", "run", "drain", "cancelled", "exit"]
    assert addresses[0] == path
    assert isinstance(addresses[1], TcpAddress)
    assert addresses[1].port > 0


async def test_components_begin_side_by_side(tmp_path: Path) -> None:
    together, shutdown = asyncio.Barrier(2), Shutdown()

    class Waiting(Sample):
        async def __aenter__(self) -> Self:
            await together.wait()
            return await super().__aenter__()

    async def ready(_: tuple[Address, ...]) -> None:
        shutdown.request("seen")

    first, second = Waiting("first"), Waiting("second", {})
    listen = ListenOptions((UnixAddress(tmp_path / "hermes.sock"),), tokens=TOKENS)
    await serve([first, second], listen, ready=ready, shutdown=shutdown)
    assert (first.steps[0], second.steps[-1]) == ("enter", "exit")


async def test_a_signal_stops_the_process_gracefully(tmp_path: Path) -> None:
    sample = Sample()
    listen = ListenOptions((UnixAddress(tmp_path / "hermes.sock"),), tokens=TOKENS)

    async def ready(_: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    await serve([sample], listen, ready=ready)
    assert sample.steps[-3:] == ["drain", "cancelled", "exit"]


@pytest.mark.parametrize(
    "failure",
    [
        OSError("the disk is gone"),
        ExceptionGroup("2 have failed", [OSError("the disk is gone"), OSError("so is this")]),
    ],
)
async def test_a_component_that_fails_ends_the_process_and_the_others_drain(
    tmp_path: Path, failure: Exception
) -> None:
    healthy, broken = Sample("healthy"), Sample("broken", policy={})
    broken.failure = failure
    listen = ListenOptions((UnixAddress(tmp_path / "hermes.sock"),), tokens=TOKENS)
    with pytest.raises(ComponentFailed) as caught:
        await serve([healthy, broken], listen)
    assert caught.value.message == "broken failed: the disk is gone"
    assert healthy.steps[-3:] == ["drain", "cancelled", "exit"]
    assert broken.steps[-1] == "exit"


async def test_draining_finishes_calls_and_sends_streams_elsewhere(tmp_path: Path) -> None:
    sample, shutdown, served = Sample(), Shutdown(), asyncio.Event()
    address = UnixAddress(tmp_path / "hermes.sock")
    listen = ListenOptions((address,), tokens=TOKENS)

    async def ready(_: object) -> None:
        served.set()

    async with (
        Channels(Identity.GATEWAY, {"agent": address}, token=TOKENS[Identity.GATEWAY]) as channels,
        asyncio.TaskGroup() as tasks,
    ):
        tasks.create_task(serve([sample], listen, ready=ready, shutdown=shutdown))
        await served.wait()
        health = health_pb2_grpc.HealthStub(channels.to("agent"))
        watch = turns(channels).WatchTurn(turn_pb2.WatchTurnRequest(turn_id="slow"))
        async with (
            open_stream(health.Watch(health_pb2.HealthCheckRequest(service="sample"))) as probe,
            open_stream(watch),
        ):
            assert (await probe.read()).status == health_pb2.HealthCheckResponse.SERVING
            assert await anext(aiter(watch)) is not None
            await sample.seen.started.wait()
            sample.seen.started.clear()
            slow = turns(channels).GetTurn(turn_pb2.GetTurnRequest(turn_id="slow"))
            slow_call = tasks.create_task(_answer(slow))
            await sample.seen.started.wait()
            shutdown.request("test")
            assert (await probe.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await anext(aiter(watch))
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert reason_of(caught.value) is Reason.DRAINING
        assert sample.seen.ended == ["slow"]
        sample.seen.release.set()
        assert await slow_call == turn_pb2.GetTurnResponse()
    assert sample.seen.ended == ["slow", "slow"]


async def _answer(call: Awaitable[turn_pb2.GetTurnResponse]) -> turn_pb2.GetTurnResponse:
    return await call
