"""JobService on a Unix socket, and what its tests ask of it."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from google.protobuf.field_mask_pb2 import FieldMask
from prometheus_client import CollectorRegistry

from hermes.common.v1 import origin_pb2
from hermes.scheduler.v1 import job_pb2, job_pb2_grpc
from hermes.scheduler.v1.job_options_pb2 import JobOptions
from scheduler_service.app import build
from services.config.settings import Settings, load_settings
from services.errors import Reason, details_of
from services.ids import new_id
from services.lifecycle import Shutdown, Workers
from services.rpc.addresses import UnixAddress
from services.rpc.auth import Identity, new_tokens
from services.rpc.channels import Channels
from services.runtime.server import ListenOptions, serve
from services.telemetry.metrics import Meter
from tests.integration.scheduler_parts import Wire

CHAT = origin_pb2.Origin(platform="telegram", chat_id="42", trust=origin_pb2.TRUST_OWNER)


@dataclass(frozen=True)
class Serving:
    """A scheduler that serves, and what is around it."""

    channels: dict[Identity, Channels]
    wire: Wire
    registry: CollectorRegistry

    def jobs(self, identity: Identity = Identity.GATEWAY) -> job_pb2_grpc.JobServiceStub:
        return job_pb2_grpc.JobServiceStub(self.channels[identity].to("scheduler"))


@asynccontextmanager
async def serving(settings: Settings, wire: Wire) -> AsyncGenerator[Serving]:
    """Serve a home's scheduler until the end of the block, then drain it."""
    address, tokens = UnixAddress(settings.home.socket), new_tokens()
    others = {"agent": wire.address, "gateway": wire.address}
    registry = CollectorRegistry()
    async with AsyncExitStack() as stack:
        channels = {
            identity: await stack.enter_async_context(
                Channels(identity, {"scheduler": str(address), **others}, token=tokens[identity])
            )
            for identity in Identity
        }
        # In a thread, because to check the time zone it is looked for on the disk.
        component = await asyncio.to_thread(
            build, settings, channels[Identity.SCHEDULER], Meter(registry)
        )
        shutdown = Shutdown()
        async with Workers() as workers:
            listen = ListenOptions((address,), None, tokens)
            served = workers.start("serve", serve([component], listen, shutdown=shutdown))
            started = Serving(channels, wire, registry)
            await started.jobs().ListJobs(job_pb2.ListJobsRequest(), wait_for_ready=True)
            yield started
            shutdown.request("the test is over")
            await served


def settings_of(home: Path, **more: str) -> Settings:
    """The settings of a home that lies in Berlin, with more from the environment."""
    environ = {"HERMES_HOME": str(home), "HERMES_TIMEZONE": "Europe/Berlin"} | more
    read = load_settings({}, environ)
    read.home.create()
    return read


def request(profile: str = "", **fields: Any) -> job_pb2.CreateJobRequest:
    """A job that is valid but for the fields given."""
    values: dict[str, Any] = {
        "job_id": new_id("job"),
        "schedule": "every weekday at 9:00",
        "prompt": "answer the news",
        "origin": CHAT,
    }
    return job_pb2.CreateJobRequest(job=job_pb2.Job(**{**values, **fields}), profile=profile)


def change(job_id: str, profile: str = "", **fields: Any) -> job_pb2.UpdateJobRequest:
    """A change of some fields of a job."""
    return job_pb2.UpdateJobRequest(
        job=job_pb2.Job(job_id=job_id, **fields),
        profile=profile,
        update_mask=FieldMask(paths=list(fields)),
    )


async def refused(call: Awaitable[object]) -> tuple[Reason, str]:
    """Return why a call fails."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    details = details_of(caught.value)
    return details.reason, details.message


def options(**fields: Any) -> JobOptions:
    """Options that may have values that there are none of."""
    return JobOptions(**fields)
