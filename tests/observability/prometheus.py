"""A real Prometheus on loopback, which reads the metrics of services that run."""

import asyncio
import shutil
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.support.ports import free_port
from tests.support.requirements import require

SCRAPE_S = 1
STARTS_WITHIN_S = 30.0


class Prometheus:
    """A running server."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def query(self, expr: str) -> list[dict[str, Any]]:
        """The series that an expression comes to now."""
        answer = await self._client.get("/api/v1/query", params={"query": expr})
        said = answer.json()
        assert said["status"] == "success", f"{expr}: {said}"
        return said["data"]["result"]

    async def until(self, expr: str, patience_s: float) -> None:
        """Return once an expression comes to anything."""
        async with asyncio.timeout(patience_s):
            while not await self.query(expr):  # noqa: ASYNC110 - it has to be asked
                await asyncio.sleep(SCRAPE_S / 4)


@asynccontextmanager
async def prometheus(folder: Path, ports: Mapping[str, int]) -> AsyncGenerator[Prometheus]:
    """Prometheus, which reads each service's port every second."""
    program = shutil.which("prometheus")
    require("prometheus", program is not None, "apt install prometheus")
    assert program is not None
    config = {
        "global": {"scrape_interval": f"{SCRAPE_S}s"},
        "scrape_configs": [
            {
                "job_name": "hermes",
                "honor_labels": True,
                "static_configs": [
                    {"targets": [f"127.0.0.1:{port}"], "labels": {"service": name}}
                    for name, port in ports.items()
                ],
            }
        ],
    }
    file, port = folder / "prometheus.yml", free_port()
    await asyncio.to_thread(file.write_text, yaml.safe_dump(config))
    process = await asyncio.create_subprocess_exec(
        program,
        f"--config.file={file}",
        f"--storage.tsdb.path={folder / 'series'}",
        f"--web.listen-address=127.0.0.1:{port}",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        url = f"http://127.0.0.1:{port}"
        async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=30) as client:
            await _ready(client)
            yield Prometheus(client)
    finally:
        process.terminate()
        await process.wait()


async def _ready(client: httpx.AsyncClient) -> None:
    async with asyncio.timeout(STARTS_WITHIN_S):
        while True:
            try:
                if (await client.get("/-/ready")).is_success:
                    return
            except httpx.TransportError:
                pass  # it does not listen yet
            await asyncio.sleep(0.05)
