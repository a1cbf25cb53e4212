"""Runs the stand-in in a thread with a loop of its own, reached over TLS on this machine."""

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from aiohttp import web

from services.rpc import certs
from services.rpc.auth import Identity
from tests.fakes.kubernetes.server import Cluster

T = TypeVar("T")

_DEADLINE_S = 30


@dataclass
class StandIn:
    """A cluster that runs."""

    cluster: Cluster
    kubeconfig: Path
    loop: asyncio.AbstractEventLoop

    async def do(self, job: Callable[[Cluster], Awaitable[T]]) -> T:
        """Does something to the cluster where it runs."""

        async def doing() -> T:
            return await job(self.cluster)

        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(doing(), self.loop))

    async def tell(self, job: Callable[[Cluster], T]) -> T:
        """The same for what does not wait."""

        async def doing(cluster: Cluster) -> T:
            return job(cluster)

        return await self.do(doing)


@contextmanager
def running(cluster: Cluster) -> Generator[StandIn]:
    """The cluster, for the time of the block."""
    folder = cluster.folder
    folder.mkdir(parents=True, exist_ok=True)
    now = datetime.now(UTC)
    authority = certs.init(folder / "tls", now)
    files = certs.issue(folder / "tls", Identity.EXECUTOR, ["127.0.0.1"], now)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(files.certificate, files.key)
    started: Future[tuple[StandIn, asyncio.Event]] = Future()

    async def serve() -> None:
        over = asyncio.Event()
        async with cluster.running() as app:
            runner = web.AppRunner(app, shutdown_timeout=1)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
            url = f"https://127.0.0.1:{runner.addresses[0][1]}"
            token = cluster.rights.token
            kubeconfig = await asyncio.to_thread(_kubeconfig, folder, url, authority, token)
            found = StandIn(cluster, kubeconfig, asyncio.get_running_loop())
            started.set_result((found, over))
            await over.wait()
            await runner.cleanup()

    with ThreadPoolExecutor(1, thread_name_prefix="kubernetes stand-in") as pool:
        served = pool.submit(lambda: asyncio.run(serve()))
        both: list[Future[Any]] = [served, started]
        done, _ = wait(both, _DEADLINE_S, FIRST_COMPLETED)
        if served in done:
            served.result()
        found, over = started.result(0)
        try:
            yield found
        finally:
            found.loop.call_soon_threadsafe(over.set)
        served.result(_DEADLINE_S)


def _kubeconfig(folder: Path, url: str, authority: Path, token: str) -> Path:
    """JSON is YAML."""
    content = json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [
                {
                    "name": "test",
                    "cluster": {"server": url, "certificate-authority": str(authority)},
                }
            ],
            "users": [{"name": "hermes", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "hermes"}}],
        }
    )
    path = folder / "kubeconfig"
    path.write_text(content)
    return path
