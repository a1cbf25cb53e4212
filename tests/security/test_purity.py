"""A sandbox shows nothing of who had one before, also where it was ready long ago."""

import asyncio
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hermes.executor.v1 import sandbox_pb2
from tests.security.scale import scale
from tests.support.boxes import BUBBLEWRAP_FIRST
from tests.support.executor_client import Client
from tests.support.executors import end_boxes, executor_settings, serving

WARM = 2
LEAVE = """
for d in . /tmp /var/tmp /run /dev/shm; do mkdir -p $d/"$0"; echo "$0" >$d/"$0"/file; done
ln -s /etc "$0"-link; git config --global user.name "$0"; export MARKER="$0"
setsid sh -c "exec -a $0 sleep 600" >/dev/null 2>&1 </dev/null &
setsid nohup python3 -c "
import socket, time
s = socket.socket(socket.AF_UNIX); s.bind('\\0$0'); s.listen(); print('left', flush=True)
time.sleep(600)" "$0" &
wait
"""
"""Leaves a marker in files, names of files, links, settings, processes and abstract sockets."""
LOOK = """
{ cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline /proc/net/unix
   find / -xdev -not -path '/proc/*'
   find /tmp /var/tmp /run /dev/shm . -exec readlink {} \\;
   find /tmp /var/tmp /run /dev/shm . -type f -exec cat {} \\;; } 2>/dev/null |
tr '\\0' '\\n' | grep -aoE 'marker-[0-9a-f]+' | sort -u
true
"""


@asynccontextmanager
async def agent(home: Path, backend: str) -> AsyncGenerator[Client]:
    """An agent of an executor with ready sandboxes; no box is left at the end."""
    settings = await asyncio.to_thread(
        executor_settings, home, backend, HERMES_WARM_POOL_SIZE=str(WARM)
    )
    try:
        async with serving(settings) as executor, executor.client() as client:
            yield client
    finally:
        await end_boxes(settings)


async def markers(client: Client, claims: int) -> tuple[set[str], set[str], int]:
    """What was left by so many owners after each other, what of it later ones saw, and how many of
    their sandboxes had been ready."""
    left, seen, warm = set[str](), set[str](), 0
    for _ in range(claims):
        answer = await client.acquire()
        warm += answer.launch == sandbox_pb2.LAUNCH_KIND_WARM
        seen |= set((await client.output(answer.lease, LOOK)).split())
        marker = f"marker-{secrets.token_hex(8)}"
        left.add(marker)
        started = await client.start(
            answer.lease, "bash", "-c", LEAVE, marker, leave_children=True, exec_id=marker
        )
        async with client.attach(answer.lease, started.exec_id) as stream:
            async for message in stream:
                if b"left" in message.output.data:
                    break
        assert marker in (await client.output(answer.lease, LOOK)).split()
        await client.release(answer.lease)
    return left, seen, warm


@pytest.mark.parametrize("backend", BUBBLEWRAP_FIRST)
async def test_nothing_is_left_for_the_next_owner(tmp_path: Path, backend: str) -> None:
    claims = scale().claims
    async with agent(tmp_path, backend) as client:
        left, seen, warm = await markers(client, claims)
    assert len(left) == claims
    assert not seen & left
    assert warm > 0
