"""What `hermes sandboxes open` follows a command with, against a real executor."""

import asyncio
from pathlib import Path

from hermes.executor.v1 import exec_pb2
from services.cli.exec_stream import ExecStream, Happened
from tests.executors import executor_settings, serving

ROUNDS = 100


async def test_input_and_sizes_at_the_same_time_all_arrive(tmp_path: Path) -> None:
    settings = await asyncio.to_thread(executor_settings, tmp_path, "bubblewrap")
    async with serving(settings) as executor, executor.client(profile="anna") as client:
        lease = (await client.acquire()).lease
        start = exec_pb2.StartExecRequest(
            lease=lease,
            profile="anna",
            exec_id="exc_many",
            script="stty -echo; echo ready; cat; stty size",
            terminal=exec_pb2.TerminalSize(row_count=24, column_count=80),
            stdin=True,
        )
        opening = exec_pb2.AttachExecRequest(start=start)
        stream = ExecStream(client.channel, lease, "anna", opening)
        seen: list[Happened] = []
        is_ready = asyncio.Event()

        async def follow() -> None:
            async for happened in stream.happenings():
                seen.append(happened)
                is_ready.set()

        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            group.create_task(follow())
            await is_ready.wait()
            for number in range(ROUNDS):
                size = exec_pb2.TerminalSize(row_count=30 + number, column_count=110)
                line = b"line %d\n" % number
                stream.resize(size)
                await stream.write(line)
            await stream.write(b"\x04")
    written = b"".join(one.data for one in seen if not isinstance(one, exec_pb2.Exit))
    lines = written.decode().split("\r\n")
    assert lines[1:-2] == [f"line {number}" for number in range(ROUNDS)]
    assert lines[-2] == f"{29 + ROUNDS} 110"
