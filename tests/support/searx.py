"""A real searx on loopback, whose one engine asks an index that a test serves."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from ruamel.yaml import YAML

from tests.support.ports import free_port
from tests.support.requirements import require

PYTHON = "/usr/bin/python3"
EXAMPLE = Path("/usr/share/doc/searx/examples/settings.yml")
START_S = 50.0


@asynccontextmanager
async def searx(folder: Path, index_url: str) -> AsyncGenerator[str]:
    """Run searx until the context is left; yields its URL."""
    installed = await asyncio.to_thread(EXAMPLE.exists)
    require("searx", installed, "Debian's package searx is not installed")
    port = free_port()
    settings = folder / "settings.yml"
    await asyncio.to_thread(_write_settings, settings, port, index_url)
    log = await asyncio.to_thread((folder / "searx.log").open, "wb")
    process = await asyncio.create_subprocess_exec(
        PYTHON,
        "-m",
        "searx.webapp",
        env={"SEARX_SETTINGS_PATH": str(settings), "PATH": "/usr/bin:/bin", "HOME": str(folder)},
        cwd="/",
        stdin=asyncio.subprocess.DEVNULL,
        stdout=log,
        stderr=log,
    )
    try:
        url = f"http://127.0.0.1:{port}"
        async with asyncio.timeout(START_S):
            await _answers(url, process)
        yield url
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        log.close()


async def _answers(url: str, process: asyncio.subprocess.Process) -> None:
    async with httpx.AsyncClient(trust_env=False) as client:
        while True:
            assert process.returncode is None, "searx has ended; its log has why"
            try:
                if (await client.get(f"{url}/config")).status_code == 200:
                    return
            except httpx.TransportError:
                await asyncio.sleep(0.1)


def _write_settings(path: Path, port: int, index_url: str) -> None:
    yaml = YAML(typ="safe")
    settings: dict[str, Any] = yaml.load(EXAMPLE.read_text())
    settings["server"] |= {"port": port, "bind_address": "127.0.0.1", "secret_key": "for tests"}
    settings["outgoing"] |= {"request_timeout": 20.0}
    settings["search"]["formats"] = ["html", "json"]
    settings["engines"] = [
        {
            "name": "index",
            "engine": "json_engine",
            "shortcut": "ix",
            "categories": "general",
            "enable_http": True,
            "search_url": f"{index_url}/find?q={{query}}",
            "results_query": "hits",
            "url_query": "url",
            "title_query": "title",
            "content_query": "text",
            "timeout": 20.0,
        }
    ]
    with path.open("w") as out:
        yaml.dump(settings, out)
