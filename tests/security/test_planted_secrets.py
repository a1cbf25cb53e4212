"""Secrets of the executor and of its callers are nowhere that a command or a reader of files looks.

Values that commands get from the egress proxy, and placeholders for them, are in test_egress.
"""

import asyncio
import json
import logging
import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes.executor.v1.sandbox_pb2 import Sandbox
from services.rpc.auth import Identity
from tests.security.dens import Lease
from tests.security.places import EVERYTHING_HELD
from tests.support.docker_engine import docker_client
from tests.support.executor_client import Client
from tests.support.executors import Executor, end_boxes, executor_settings, serving

EVERYWHERE = """
{ cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline; env; cat /proc/mounts /proc/net/unix
  find / -xdev -newermt '-10 minutes' -type f -not -path '/proc/*' -exec cat {} + ; } 2>/dev/null |
tr '\\0' '\\n'
true
"""


@pytest.fixture
def canary(monkeypatch: pytest.MonkeyPatch) -> str:
    """A secret in the executor's own environment."""
    value = f"canary-{secrets.token_hex(16)}"
    monkeypatch.setenv("HERMES_PLANTED_API_KEY", value)
    return value


@pytest.fixture(params=EVERYTHING_HELD)
async def executor(
    request: pytest.FixtureRequest, canary: str, tmp_path: Path
) -> AsyncIterator[Executor]:
    settings = await asyncio.to_thread(executor_settings, tmp_path, request.param)
    async with serving(settings) as running:
        yield running
    await end_boxes(settings)


def planted(executor: Executor, lease: Lease, canary: str) -> dict[str, str]:
    """All that is secret."""
    tokens = {f"token of {identity}": executor.tokens[identity] for identity in Identity}
    return {**tokens, "lease": lease.token, "environment": canary}


def kept_of(sandbox: Sandbox, home: Path) -> Iterator[tuple[str, bytes]]:
    """What there is of a sandbox outside of it: files, what the engine knows, command lines."""
    for path in home.rglob("*"):
        if path.is_file():
            yield str(path), path.read_bytes()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes()
        except OSError:
            continue
        if sandbox.sandbox_id.encode() in line or b"/opt/hermes" in line:
            yield str(path), line
    if sandbox.backend == "docker":
        client = docker_client()
        engine: Any = client.api
        found = engine.inspect_container(f"hermes-box-{sandbox.sandbox_id}")
        yield "docker inspect", json.dumps(found).encode()
        client.close()


async def found_in_box(client: Client, lease: Lease, hidden: dict[str, str]) -> set[str]:
    """Which secrets a command sees."""
    seen = (await client.run(lease, script=EVERYWHERE)).stdout.decode(errors="replace")
    assert "PATH=" in seen
    return {name for name, value in hidden.items() if value in seen}


async def found_outside(sandbox: Sandbox, home: Path, hidden: dict[str, str]) -> set[str]:
    """Which secrets are kept outside."""

    def look() -> set[str]:
        return {
            name
            for _, content in kept_of(sandbox, home)
            for name, value in hidden.items()
            if value.encode() in content
        }

    return await asyncio.to_thread(look)


async def test_no_secret_is_found_anywhere(
    executor: Executor, canary: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with executor.client() as client:
        answer = await client.acquire()
        hidden = planted(executor, answer.lease, canary)
        assert await found_in_box(client, answer.lease, hidden) == set()
        assert await found_outside(answer.sandbox, executor.home, hidden) == set()
        await client.release(answer.lease)
    assert {name for name, value in hidden.items() if value in caplog.text} == set()
