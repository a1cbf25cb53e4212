"""Connections to a model's endpoint: kept, handed out one by one, and let go of."""

import asyncio
import json
from asyncio import StreamReader, StreamWriter
from contextlib import AsyncExitStack

from pydantic import SecretStr

from agent_service.models.base import ModelRequest, encoded
from agent_service.models.chat_completions import ChatCompletions
from agent_service.models.connections import Connections
from agent_service.models.endpoints import Endpoint
from agent_service.models.provider import Provider

_ANSWER = json.dumps(
    {"choices": [{"message": {"role": "assistant", "content": "Yes."}, "finish_reason": "stop"}]}
).encode()


class _Client:
    def __init__(self) -> None:
        self.is_closed = False

    async def close(self) -> None:
        self.is_closed = True


async def test_what_was_used_last_is_handed_out_first() -> None:
    connections = Connections(_Client)
    async with connections.one() as first, connections.one() as second:
        assert first is not second
    async with connections.one() as again, connections.one() as other, connections.one() as third:
        assert again is first  # it was given back after the second one
        assert other is second
        assert third not in (first, second)


async def test_what_nobody_needs_any_more_is_closed() -> None:
    connections = Connections(_Client, keep_alive_s=0.05)
    async with connections.one() as first, connections.one() as second:
        await asyncio.sleep(0.1)
    assert not first.is_closed
    assert not second.is_closed
    for _ in range(500):
        if not connections.idle_count:
            break
        await asyncio.sleep(0.01)
    assert first.is_closed
    assert second.is_closed
    async with connections.one() as other:
        pass
    assert other not in (first, second)
    await connections.close()
    assert other.is_closed


async def test_what_is_given_back_as_the_last_one_is_closed_is_closed_too() -> None:
    closing, may_end = asyncio.Event(), asyncio.Event()

    class Slow(_Client):
        async def close(self) -> None:
            closing.set()
            await may_end.wait()
            await super().close()

    connections = Connections(Slow, keep_alive_s=0)
    async with connections.one():
        pass
    await closing.wait()
    async with connections.one() as second:
        # Who waited first goes on first: the closing ends right before this is given back.
        asyncio.get_running_loop().call_soon(may_end.set)
        await may_end.wait()
    for _ in range(500):
        if not connections.idle_count:
            break
        await asyncio.sleep(0.01)
    assert second.is_closed
    await connections.close()


async def test_after_many_at_once_only_some_are_kept_the_latest() -> None:
    connections = Connections(_Client, max_idle=2)
    async with connections.one() as first, connections.one() as second, connections.one() as third:
        pass
    # They were given back in the opposite order.
    assert [each.is_closed for each in (first, second, third)] == [False, False, True]
    assert connections.idle_count == 2
    await connections.close()
    assert first.is_closed


async def test_calls_at_the_same_time_have_a_connection_each_and_later_ones_take_those() -> None:
    accepted: list[StreamWriter] = []
    together = asyncio.Barrier(3)

    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        accepted.append(writer)
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = next(
                int(line.partition(b":")[2])
                for line in head.lower().splitlines()
                if line.startswith(b"content-length")
            )
            if b"together" in await reader.readexactly(length):
                await together.wait()
            lines = ("HTTP/1.1 200 OK", "Content-Type: application/json")
            size = f"Content-Length: {len(_ANSWER)}"
            writer.write("\r\n".join([*lines, size, "", ""]).encode() + _ANSWER)

    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(await asyncio.start_server(serve, "127.0.0.1"))
        port = server.sockets[0].getsockname()[1]
        url = f"http://127.0.0.1:{port}/v1"
        endpoint = Endpoint(url, SecretStr("key"), "scripted", "custom", "test", "HERMES_API_KEY")
        provider = await stack.enter_async_context(Provider(endpoint, ChatCompletions()))

        async def ask(text: str) -> None:
            asked = encoded({"role": "user", "content": text})
            async with provider.stream(ModelRequest("scripted", [asked], b"[]")) as events:
                async for _ in events:
                    pass

        await asyncio.gather(*(ask("together") for _ in range(3)))
        for _ in range(3):
            await ask("alone")
        assert len(accepted) == 3
        for writer in accepted:
            writer.transport.abort()
