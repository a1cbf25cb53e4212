"""The admin port: gRPC reflection for tools on the same machine."""

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager

import grpc.aio

from services.errors import FailedPrecondition
from services.rpc.addresses import Address, TcpAddress
from services.rpc.auth import Policy
from services.rpc.listeners import listen_on, reserved

HOST = "127.0.0.1"
"""Local only, as callers are not authenticated."""


@asynccontextmanager
async def reflecting(port: int, policies: Iterable[Policy]) -> AsyncGenerator[Address]:
    """Serve reflection of these policies' services; FailedPrecondition if it is not installed."""
    try:
        from grpc_reflection.v1alpha import reflection
    except ImportError as error:
        raise FailedPrecondition(
            "services.admin.port is set, and gRPC's reflection is not installed: "
            "pip install 'hermes-services[tracing]'"
        ) from error
    methods = {method for policy in policies for method in policy}
    names = {method.split("/")[1] for method in methods}
    address = TcpAddress(HOST, port)
    async with reserved(address):
        server = grpc.aio.server(options=(("grpc.so_reuseport", 0),))
        reflection.enable_server_reflection([*sorted(names), reflection.SERVICE_NAME], server)
        where = await listen_on(server, address, None)
        await server.start()
        try:
            yield where
        finally:
            await server.stop(None)
