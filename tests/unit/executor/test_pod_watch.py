"""The watch of pods, with an API server that ends it at once."""

import asyncio
from collections.abc import AsyncGenerator

from executor_service.backends.kubernetes.api import Cluster, Json
from executor_service.backends.kubernetes.pods import Pods
from executor_service.backends.kubernetes.watch import PodWatch
from executor_service.config import KubernetesConfig


class Impatient(Pods):
    """Has no pods, and never knows the version that a watch begins with."""

    def __init__(self) -> None:
        super().__init__(Cluster(KubernetesConfig()), "default")
        self.lists = 0

    async def list(self, selector: str) -> Json:
        self.lists += 1
        await asyncio.sleep(0)
        return {"items": [], "metadata": {"resourceVersion": "1"}}

    async def changes(self, selector: str, version: str) -> AsyncGenerator[Json]:
        yield {"type": "ERROR", "object": {"kind": "Status", "code": 410}}


async def test_a_watch_that_ends_at_once_does_not_flood_the_server() -> None:
    pods = Impatient()
    watch = PodWatch(pods, "app=hermes")
    watch.guard("uid")
    await asyncio.sleep(0.2)
    await watch.close()
    assert pods.lists == 1
