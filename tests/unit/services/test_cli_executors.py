"""Which executor an operator means."""

from typing import Any, cast

import grpc.aio
import pytest

from hermes.executor.v1 import sandbox_pb2, sandbox_pb2_grpc
from services.addresses import TcpAddress
from services.auth import Identity
from services.channels import Channels
from services.cli.executors import Executor, Executors, find
from services.errors import InvalidArgument, NotFound, ServiceUnavailable

SHORT, LONG, OTHER, SILENT = "one:740", "one:7402", "other:7402", "other:74020"


@pytest.fixture
async def deployment() -> Executors:
    """Some whose endpoints begin alike, one of which is silent."""
    channel = grpc.aio.insecure_channel("unix:/nowhere")
    found = sandbox_pb2.GetCapabilitiesResponse()
    each = [Executor(endpoint, channel, found) for endpoint in (SHORT, LONG, OTHER)]
    return Executors(each, {SILENT: "does not answer"})


async def test_an_executor_is_named_by_its_endpoint_or_the_beginning_of_one(
    deployment: Executors,
) -> None:
    for endpoint in (SHORT, LONG, OTHER):
        assert deployment.one(endpoint).endpoint == endpoint
    with pytest.raises(InvalidArgument, match="could be each of"):
        deployment.one("o")
    with pytest.raises(ServiceUnavailable, match=f"{SILENT} does not answer"):
        deployment.one(SILENT)
    with pytest.raises(NotFound, match="no executor 'nobody'"):
        deployment.one("nobody")


class Alone(sandbox_pb2_grpc.SandboxServiceServicer):
    """An executor that says where it alone is reached."""

    endpoint = ""

    async def GetCapabilities(self, request: Any, context: Any) -> Any:  # noqa: N802 - the base's
        return sandbox_pb2.GetCapabilitiesResponse(endpoint=self.endpoint)


@pytest.mark.parametrize(("endpoint", "silent"), [("127.0.0.2:1", 1), ("localhost:1", 0)])
async def test_what_leads_to_one_that_answers_elsewhere_is_no_silent_one(
    endpoint: str, silent: int
) -> None:
    server, servicer = grpc.aio.server(), cast("Any", Alone)()
    servicer.endpoint = endpoint
    sandbox_pb2_grpc.add_SandboxServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.2:0")
    await server.start()
    # At 127.0.0.1, which is localhost, it does not listen.
    places = {host: TcpAddress(host, port) for host in ("127.0.0.1", "127.0.0.2")}
    async with Channels(Identity.OPERATOR, places) as channels:
        deployment = await find(channels, places)
    assert [one.endpoint for one in deployment.each] == [endpoint]
    assert len(deployment.silent) == silent
    await server.stop(None)
