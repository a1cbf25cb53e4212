"""`grpc.health.v1` for a server (the empty name) and for each of its components."""

from collections.abc import Iterable
from typing import Any, cast

import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc


class Health:
    """Answers probes: everything is NOT_SERVING until told otherwise, and at the end again."""

    def __init__(self, components: Iterable[str]) -> None:
        self._names = ("", *components)
        # The package's stubs leave out its asyncio half.
        self._servicer: Any = cast("Any", health).aio.HealthServicer()

    async def register(self, server: grpc.aio.Server) -> None:
        """Adds the service to the server."""
        await self._set_all(health_pb2.HealthCheckResponse.NOT_SERVING)
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, server)

    async def start(self) -> None:
        """Says that calls are welcome."""
        await self._set_all(health_pb2.HealthCheckResponse.SERVING)

    async def stop(self) -> None:
        """Says, for good, that no more calls should come."""
        await self._servicer.enter_graceful_shutdown()

    async def _set_all(self, status: health_pb2.HealthCheckResponse.ServingStatus) -> None:
        for name in self._names:
            await self._servicer.set(name, status)
