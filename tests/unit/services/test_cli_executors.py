"""Which executor an operator means."""

import grpc.aio
import pytest

from hermes.executor.v1 import sandbox_pb2
from services.cli.executors import Executor, Executors
from services.errors import InvalidArgument, NotFound, ServiceUnavailable

SHORT, LONG, OTHER, SILENT = "one:740", "one:7402", "other:7402", "other:74020"


@pytest.fixture
async def deployment() -> Executors:
    """Some whose endpoints begin alike, one of which is silent."""
    channel = grpc.aio.insecure_channel("unix:/nowhere")
    found = sandbox_pb2.GetCapabilitiesResponse()
    each = [Executor(endpoint, channel, found) for endpoint in (SHORT, LONG, OTHER)]
    return Executors(each, {SILENT: "does not answer"})


@pytest.mark.parametrize("endpoint", [SHORT, LONG, OTHER])
async def test_all_of_an_endpoint_names_it(deployment: Executors, endpoint: str) -> None:
    assert deployment.one(endpoint).endpoint == endpoint


async def test_the_beginning_of_one_endpoint_names_it() -> None:
    channel = grpc.aio.insecure_channel("unix:/nowhere")
    found = sandbox_pb2.GetCapabilitiesResponse()
    deployment = Executors([Executor(name, channel, found) for name in (LONG, OTHER)], {})
    assert deployment.one("one").endpoint == LONG


@pytest.mark.parametrize("beginning", ["o", "one", "other:7"])
async def test_the_beginning_of_several_names_none(deployment: Executors, beginning: str) -> None:
    with pytest.raises(InvalidArgument, match="could be each of"):
        deployment.one(beginning)


async def test_one_that_is_silent_is_not_another(deployment: Executors) -> None:
    with pytest.raises(ServiceUnavailable, match=f"{SILENT} does not answer"):
        deployment.one(SILENT)
    with pytest.raises(NotFound, match="no executor 'nobody'"):
        deployment.one("nobody")
