"""PoolService."""

from typing import Any

import grpc.aio

from executor_service.sandboxes.inventory import PoolStats
from executor_service.sandboxes.leases import Leases
from executor_service.sandboxes.templates import Template, Templates
from executor_service.servicer.fields import in_range
from hermes.executor.v1 import pool_pb2, pool_pb2_grpc
from services.errors import InvalidArgument
from services.rpc.messages import message_of

Context = grpc.aio.ServicerContext[Any, Any]
_MOST_WARM = 1000
_MOST = 10_000


class PoolServicer(pool_pb2_grpc.PoolServiceServicer):
    """Serves what operators do with pools."""

    def __init__(self, templates: Templates, leases: Leases) -> None:
        self._templates = templates
        self._leases = leases

    async def GetPoolStats(
        self, request: pool_pb2.GetPoolStatsRequest, context: Context
    ) -> pool_pb2.GetPoolStatsResponse:
        return pool_pb2.GetPoolStatsResponse(pools=map(_pool, self._templates))

    async def ResizePool(
        self, request: pool_pb2.ResizePoolRequest, context: Context
    ) -> pool_pb2.ResizePoolResponse:
        template = self._templates.find(request.template)
        warm, most = _sizes(request, template.pool.stats)
        await template.pool.resize(warm, most)
        return pool_pb2.ResizePoolResponse(pool=_pool(template))

    async def Drain(
        self, request: pool_pb2.DrainRequest, context: Context
    ) -> pool_pb2.DrainResponse:
        await self._templates.drain()
        return pool_pb2.DrainResponse(
            claimed_count=sum(template.pool.stats.claimed_count for template in self._templates),
            running_command_count=sum(len(sandbox.running) for sandbox in self._leases),
        )

    async def Undrain(
        self, request: pool_pb2.UndrainRequest, context: Context
    ) -> pool_pb2.UndrainResponse:
        await self._templates.undrain()
        return pool_pb2.UndrainResponse()


def _pool(template: Template) -> pool_pb2.PoolStats:
    return message_of(template.pool.stats, pool_pb2.PoolStats)


def _sizes(request: pool_pb2.ResizePoolRequest, now: PoolStats) -> tuple[int, int]:
    """Return how many boxes to keep ready and to allow; fails with InvalidArgument."""
    warm = request.warm_size if request.HasField("warm_size") else now.warm_size
    most = request.max_size if request.HasField("max_size") else now.max_size
    in_range("max_size", most, 1, _MOST)
    if warm > most:
        raise InvalidArgument(
            f"{warm} ready sandboxes are more than the limit of {most}",
            fields={"warm_size": f"at most {most}, the limit"},
        )
    return in_range("warm_size", warm, 0, _MOST_WARM), most
