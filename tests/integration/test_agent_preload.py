"""Where `model.preload` is on, the provider's SDK is there before the first turn, and else not."""

import asyncio
import sys
from pathlib import Path

_SERVICE = """
import asyncio, sys
from services.cli.connection import connected
from services.config.settings import load_settings

async def main():
    home, preload, base_url = sys.argv[1:]
    flags = {"home": home, "preload_model": preload == "preload"}
    flags |= {"base_url": base_url, "model": base_url and "any"}
    settings = load_settings(flags, {})
    settings.home.create()
    async with connected(settings, ("agent",)):
        print("ready", "openai" in sys.modules, flush=True)
        while "openai" not in sys.modules:
            await asyncio.sleep(0.01)
        print("loaded", flush=True)

asyncio.run(main())
"""


async def lines_of(home: Path, *options: str, within_s: float = 3) -> list[str]:
    """What an agent says of itself until it has loaded the SDK, for so long after its start."""
    command = (sys.executable, "-c", _SERVICE, str(home), *options)
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    lines = [(await process.stdout.readline()).decode().strip()]
    try:
        async with asyncio.timeout(within_s):
            lines.append((await process.stdout.readline()).decode().strip())
    except TimeoutError:
        process.kill()
    await process.wait()
    return lines


async def test_the_sdk_is_loaded_without_a_turn(tmp_path: Path) -> None:
    ready, loaded = await lines_of(tmp_path, "preload", "http://127.0.0.1:9/v1", within_s=30)
    assert ready.startswith("ready")
    assert loaded == "loaded"


async def test_a_start_without_a_model_goes_on(tmp_path: Path) -> None:
    ready, *_ = await lines_of(tmp_path, "preload", "")
    assert ready.startswith("ready")
