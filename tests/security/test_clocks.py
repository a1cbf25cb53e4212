"""Clocks that are ten minutes wrong: leases are measured in time that has passed."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from google.protobuf.descriptor import Descriptor
from google.protobuf.duration_pb2 import Duration

from executor_service import app
from hermes.executor.v1 import exec_pb2, file_pb2, sandbox_pb2
from services.clock import SystemClock
from services.config.settings import Settings
from tests.support.boxes import BUBBLEWRAP_FIRST
from tests.support.executor_client import Client
from tests.support.executors import end_boxes, executor_settings, serving, until
from tests.support.replacement import replaced

SKEWS_S = (600, -600)
READY = sandbox_pb2.SANDBOX_STATE_READY


class WrongClock(SystemClock):
    """The machine's clock, with a wall time that is wrong."""

    def __init__(self, skew_s: float = 0) -> None:
        self.skew_s = skew_s

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=self.skew_s)


@pytest.fixture(params=BUBBLEWRAP_FIRST)
async def settings(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Settings]:
    """No box is left at the end."""
    settings = await asyncio.to_thread(
        executor_settings, tmp_path, request.param, HERMES_KEEP_SANDBOXES="true"
    )
    yield settings
    await end_boxes(settings)


@asynccontextmanager
async def agent(settings: Settings, clock: WrongClock) -> AsyncGenerator[Client]:
    """An agent of an executor with this clock."""
    with replaced(app, "SystemClock", lambda: clock):
        async with serving(settings) as executor, executor.client() as client:
            yield client


async def acquire(client: Client, session_id: str, idle_s: int) -> sandbox_pb2.Lease:
    return (await client.acquire(session_id, idle_ttl=Duration(seconds=idle_s))).lease


async def state(client: Client, lease: sandbox_pb2.Lease) -> object:
    request = sandbox_pb2.GetSandboxRequest(sandbox_id=lease.sandbox_id)
    return (await client.sandboxes.GetSandbox(request)).sandbox.state


async def has_ended(client: Client, lease: sandbox_pb2.Lease, within_s: float) -> bool:
    async def is_over() -> bool:
        return await state(client, lease) != READY

    try:
        await until(is_over, within_s)
    except TimeoutError:
        return False
    return True


async def test_the_next_executor_s_clock_changes_no_lease(settings: Settings) -> None:
    async with agent(settings, WrongClock()) as client:
        lease = await acquire(client, "s", 60)
        old = (await client.acquire("old", max_ttl=Duration(seconds=300))).lease
    for skew_s in SKEWS_S:
        async with agent(settings, WrongClock(skew_s)) as client:
            assert not await has_ended(client, lease, 1.5)
            assert await client.output(lease, "echo works") == "works"
            renewal = sandbox_pb2.RenewLeaseRequest(lease=old)
            left = (await client.sandboxes.RenewLease(renewal)).expires_in.ToMilliseconds()
            assert 200_000 < left < 300_000


def messages(inside: Descriptor) -> Iterator[Descriptor]:
    """A message and all that are in it."""
    yield inside
    for field in inside.fields:
        if field.message_type is not None and field.message_type.file is inside.file:
            yield from messages(field.message_type)


def test_no_caller_says_what_time_it_is() -> None:
    asked = [
        method.input_type
        for file in (sandbox_pb2, exec_pb2, file_pb2)
        for service in file.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    ]
    assert len(asked) > 15
    times = [
        f"{message.full_name}.{field.name}"
        for request in asked
        for message in messages(request)
        for field in message.fields
        if field.message_type is not None
        and field.message_type.full_name == "google.protobuf.Timestamp"
    ]
    assert times == []
