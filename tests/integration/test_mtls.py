"""Mutual TLS with real certificates over loopback: who is let in, and rotation without restart."""

import asyncio
import shutil
from collections.abc import AsyncGenerator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import grpc
import grpc.aio
import pytest
from msgspec.structs import replace

from hermes.agent.v1 import turn_pb2, turn_pb2_grpc
from services.errors import Reason, reason_of
from services.rpc import certs
from services.rpc.addresses import Address, TcpAddress
from services.rpc.auth import Identity
from services.rpc.channels import Channels
from services.rpc.streams import open_stream
from services.runtime.server import ListenOptions, Server
from tests.fakes.component import Sample, turns

NAMES = ("localhost", "127.0.0.1")
LOOPBACK = TcpAddress("127.0.0.1", 0)


def now() -> datetime:
    return datetime.now(UTC)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A CA and a certificate for three identities."""
    pki = tmp_path / "pki"
    certs.init(pki, now())
    for identity in (Identity.AGENT, Identity.GATEWAY, Identity.SCHEDULER):
        certs.issue(pki, identity, NAMES, now())
    return pki


@pytest.fixture
def strangers(tmp_path: Path) -> Path:
    """The same of another CA, which nobody here knows."""
    pki = tmp_path / "strangers"
    certs.init(pki, now())
    certs.issue(pki, Identity.AGENT, NAMES, now())
    certs.issue(pki, Identity.GATEWAY, NAMES, now())
    return pki


@asynccontextmanager
async def serving(pki: Path) -> AsyncGenerator[tuple[Sample, Address], None]:
    sample = Sample()
    listen = ListenOptions((LOOPBACK,), tls=certs.files_of(pki, Identity.AGENT))
    async with Server([sample], listen) as server:
        await server.start()
        yield sample, server.addresses[0]


def channels_of(identity: Identity, address: Address, pki: Path) -> Channels:
    return Channels(identity, {"agent": address}, tls=certs.files_of(pki, identity))


async def get_turn(channels: Channels) -> None:
    await turns(channels).GetTurn(turn_pb2.GetTurnRequest(), timeout=10)


async def refused(call: Awaitable[object]) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value


async def test_the_certificate_is_the_identity(folder: Path) -> None:
    async with serving(folder) as (sample, address):
        async with channels_of(Identity.GATEWAY, address, folder) as gateway:
            await get_turn(gateway)
            denied = await refused(turns(gateway).StartTurn(turn_pb2.StartTurnRequest()))
        async with channels_of(Identity.SCHEDULER, address, folder) as scheduler:
            await turns(scheduler).StartTurn(turn_pb2.StartTurnRequest())
            also_denied = await refused(get_turn(scheduler))
    assert sample.seen.callers == [Identity.GATEWAY]
    assert reason_of(denied) is reason_of(also_denied) is Reason.PERMISSION_DENIED


async def test_a_token_does_not_outvote_a_certificate(folder: Path) -> None:
    sample, tokens = Sample(), {Identity.GATEWAY: "secret"}
    files = certs.files_of(folder, Identity.AGENT)
    async with Server([sample], ListenOptions((LOOPBACK,), files, tokens)) as server:
        await server.start()
        as_scheduler = Channels(
            Identity.SCHEDULER,
            {"agent": server.addresses[0]},
            tls=certs.files_of(folder, Identity.SCHEDULER),
            token="secret",
        )
        async with as_scheduler as channels:
            denied = await refused(get_turn(channels))
    assert reason_of(denied) is Reason.PERMISSION_DENIED


async def test_the_name_of_the_host_is_checked(folder: Path) -> None:
    await asyncio.to_thread(certs.issue, folder, Identity.AGENT, ["elsewhere"], now(), force=True)
    async with (
        serving(folder) as (sample, address),
        channels_of(Identity.GATEWAY, address, folder) as channels,
    ):
        error = await refused(get_turn(channels))
        assert error.code() is grpc.StatusCode.UNAVAILABLE
        assert sample.seen.callers == []
        assert isinstance(address, TcpAddress)
        named = replace(address, server_name="elsewhere")
        async with channels_of(Identity.GATEWAY, named, folder) as knowing:
            await get_turn(knowing)
    assert sample.seen.callers == [Identity.GATEWAY]


async def test_a_client_of_another_ca_is_refused(folder: Path, strangers: Path) -> None:
    # It trusts our CA, so that it is the server who refuses.
    await asyncio.to_thread(shutil.copy, folder / "ca.crt", strangers / "ca.crt")
    async with (
        serving(folder) as (sample, address),
        channels_of(Identity.GATEWAY, address, strangers) as channels,
    ):
        error = await refused(get_turn(channels))
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert reason_of(error) is Reason.SERVICE_UNAVAILABLE
    assert sample.seen.callers == []


async def test_a_server_of_another_ca_is_refused(folder: Path, strangers: Path) -> None:
    async with (
        serving(strangers) as (sample, address),
        channels_of(Identity.GATEWAY, address, folder) as channels,
    ):
        error = await refused(get_turn(channels))
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert sample.seen.callers == []


@pytest.mark.parametrize("encrypted", [True, False])
async def test_a_client_without_a_certificate_is_refused(folder: Path, encrypted: bool) -> None:
    ca = await asyncio.to_thread((folder / "ca.crt").read_bytes)
    async with serving(folder) as (sample, address):
        channel = (
            grpc.aio.secure_channel(str(address), grpc.ssl_channel_credentials(ca))
            if encrypted
            else grpc.aio.insecure_channel(str(address))
        )
        async with channel:
            stub = turn_pb2_grpc.TurnServiceStub(channel)
            error = await refused(stub.GetTurn(turn_pb2.GetTurnRequest(), timeout=10))
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert sample.seen.callers == []


async def test_a_certificate_that_names_nobody_is_refused(folder: Path) -> None:
    nobody = cast("Identity", "nobody")
    await asyncio.to_thread(certs.issue, folder, nobody, NAMES, now())
    async with (
        serving(folder) as (sample, address),
        channels_of(nobody, address, folder) as channels,
    ):
        error = await refused(get_turn(channels))
    assert reason_of(error) is Reason.UNAUTHENTICATED
    assert sample.seen.callers == []


async def test_a_server_takes_new_certificates_without_a_restart(folder: Path) -> None:
    old = folder.with_name("old")
    await asyncio.to_thread(shutil.copytree, folder, old)
    async with serving(folder) as (sample, address):
        async with channels_of(Identity.GATEWAY, address, old) as before:
            request = turn_pb2.WatchTurnRequest(turn_id="slow")
            async with open_stream(turns(before).WatchTurn(request)) as watch:
                messages = aiter(watch)
                assert (await anext(messages)).events[0].sequence == 1
                await asyncio.to_thread(renew_everything, folder)
                async with channels_of(Identity.GATEWAY, address, folder) as after:
                    await get_turn(after)
                # The stream that was open goes on over the connection that it has.
                sample.seen.release.set()
                assert (await anext(messages)).events[0].sequence == 2
        # A new connection with what was valid before: its CA is not trusted any more.
        async with channels_of(Identity.GATEWAY, address, old) as late:
            assert (await refused(get_turn(late))).code() is grpc.StatusCode.UNAVAILABLE


async def test_a_client_takes_new_certificates_without_a_restart(folder: Path) -> None:
    async with AsyncExitStack() as stack:
        async with serving(folder) as (sample, address):
            client = channels_of(Identity.GATEWAY, address, folder)
            channels = await stack.enter_async_context(client)
            await get_turn(channels)
        await asyncio.to_thread(renew_everything, folder)
        listen = ListenOptions((address,), tls=certs.files_of(folder, Identity.AGENT))
        server = await stack.enter_async_context(Server([sample], listen))
        await server.start()
        for _ in range(100):
            try:
                await get_turn(channels)
            except grpc.aio.AioRpcError as error:
                assert error.code() is grpc.StatusCode.UNAVAILABLE  # noqa: PT017
                await asyncio.sleep(0.1)
            else:
                break
    assert sample.seen.callers == [Identity.GATEWAY] * 2


def renew_everything(pki: Path) -> None:
    """A new CA and new certificates for all, in the same files."""
    certs.init(pki, now(), force=True)
    for identity in (Identity.AGENT, Identity.GATEWAY, Identity.SCHEDULER):
        certs.issue(pki, identity, NAMES, now(), force=True)
