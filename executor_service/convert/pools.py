"""Pools, and boxes that nobody knows."""

from executor_service.backends.base import Box
from executor_service.convert.common import in_range
from executor_service.pools.options import PoolStats
from executor_service.pools.templates import Template
from hermes.executor.v1 import pool_pb2

_MOST_WARM = 1000
_MOST = 10_000


def pool(template: Template) -> pool_pb2.PoolStats:
    """A template's pool as it is now."""
    stats = template.pool.stats
    return pool_pb2.PoolStats(
        template=template.name,
        backend=template.capabilities.name,
        ready_count=stats.ready,
        claimed_count=stats.claimed,
        making_count=stats.making,
        waiting_count=stats.waiting,
        warm_size=stats.warm,
        max_size=stats.most,
        hit_count=stats.hits,
        miss_count=stats.misses,
        draining=stats.draining,
    )


def sizes(request: pool_pb2.ResizePoolRequest, now: PoolStats) -> tuple[int, int]:
    """How many boxes are to be ready and how many there may be; fails with InvalidArgument."""
    warm = request.warm_size if request.HasField("warm_size") else now.warm
    most = request.max_size if request.HasField("max_size") else now.most
    return in_range("warm_size", warm, 0, _MOST_WARM), in_range("max_size", most, 1, _MOST)


def orphan(box: Box) -> pool_pb2.OrphanBox:
    """A box that nobody knows."""
    return pool_pb2.OrphanBox(
        box_key=box.key, backend=box.backend, native_id=box.native_id, template=box.pool
    )
