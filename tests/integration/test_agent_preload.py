"""What is imported before a turn needs it, and what is not."""

import asyncio
import json
import subprocess
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


PROGRAM = """
import json, sys
from agent_service.models.wires.transport import types_deferred
with types_deferred():
    import openai
client = openai.AsyncOpenAI(api_key="none", base_url="http://127.0.0.1:9/v1")
known = ("openai.types.responses.response", "openai.types.shared.reasoning")
imported = [name for name in known if name in sys.modules]
calls = [client.chat.completions.create.__name__, client.responses.create.__name__]
from openai.types import Batch
from openai.types.shared import Reasoning
types = [openai.types.responses.Response.__name__, Batch.__name__, Reasoning.__name__]
nonsense = hasattr(openai.types, "Nonsense")
finders = [finder for finder in sys.meta_path if "sdk" in repr(finder)]
print(json.dumps([imported, calls, types, nonsense, finders]))
"""


def test_types_are_imported_when_somebody_asks_for_them() -> None:
    run = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(run, check=True, capture_output=True, text=True)
    imported, calls, types, nonsense, finders = json.loads(done.stdout)
    assert imported == []
    assert calls == ["create", "create"]
    assert types == ["Response", "Batch", "Reasoning"]
    assert (nonsense, finders) == (False, [])
