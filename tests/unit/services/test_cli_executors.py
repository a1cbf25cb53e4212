"""Which executor an operator means."""

import grpc.aio
import pytest

from hermes.executor.v1 import sandbox_pb2
from services.cli.sandboxes.executors import Executor, Executors, places_of
from services.errors import InvalidArgument, NotFound, ServiceUnavailable
from services.rpc.addresses import TcpAddress, parse_address

SHORT, LONG, OTHER, SILENT = "one:740", "one:7402", "other:7402", "other:74020"


@pytest.fixture
async def deployment() -> Executors:
    """Some whose endpoints begin alike, one of which is silent."""
    channel = grpc.aio.insecure_channel("unix:/nowhere")
    found = sandbox_pb2.GetCapabilitiesResponse()
    each = [Executor(endpoint, channel, found) for endpoint in (SHORT, LONG, OTHER)]
    return Executors(each, {SILENT: "does not answer"})


async def test_an_executor_behind_a_tunnel_has_the_name_after_the_hash() -> None:
    address = parse_address("127.0.0.1:7402#hermes-executor.hermes.svc")
    assert isinstance(address, TcpAddress)
    (place,) = await places_of(address)
    assert (place.host, place.server_name) == ("127.0.0.1", "hermes-executor.hermes.svc")


async def test_an_executor_is_named_by_its_endpoint_or_the_beginning_of_one(
    deployment: Executors,
) -> None:
    for endpoint in (SHORT, LONG, OTHER):
        assert deployment.one(endpoint).endpoint == endpoint
    with pytest.raises(InvalidArgument, match="matches"):
        deployment.one("o")
    with pytest.raises(ServiceUnavailable, match=f"{SILENT} does not answer"):
        deployment.one(SILENT)
    with pytest.raises(NotFound, match="no executor 'nobody'"):
        deployment.one("nobody")
