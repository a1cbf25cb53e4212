"""The scripted model's HTTP server: chat completions, streamed, on asyncio alone."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from msgspec import Struct

from tests.fakes.model_chunks import data_lines
from tests.fakes.model_script import Conversation, Json, Reply, Script

_BUFFER_BYTES = 1024 * 1024
_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
_STREAM_END = b"0\r\n\r\n"


class Exchange(Struct, eq=False):
    """One request as it came in, and how its answer ended.

    `peer` is the client's address and port. `outcome` is empty while it is being answered,
    then answered, cut, or disconnected where the client hung up first.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    peer: str
    outcome: str = ""


def _chat_events(
    reply: Reply, conversation: Conversation, model: str, prompt_bytes: int
) -> Iterator[str]:
    lines = data_lines(reply, conversation, model, prompt_bytes)
    return (f"data: {line}\n\n" for line in lines)


class Speech(Struct, frozen=True):
    """An API to answer in; `events` makes of an answer what is sent at a time."""

    path: str = "/chat/completions"
    conversation: Callable[[Json], Conversation] = lambda body: Conversation.of(body["messages"])
    events: Callable[[Reply, Conversation, str, int], Iterator[str]] = _chat_events


class ModelServer:
    """Answers by a script; `observe` sees each exchange when it begins and when it ends."""

    def __init__(
        self,
        script: Script,
        observe: Callable[[Exchange], None] | None = None,
        speech: Speech | None = None,
    ) -> None:
        self.script = script
        self.speech = speech or Speech()
        self._observe = observe
        self._clients: dict[asyncio.Task[Any], asyncio.StreamWriter] = {}

    @asynccontextmanager
    async def listen(self, port: int = 0, host: str = "127.0.0.1") -> AsyncGenerator[str]:
        """Serve until the context is left; gives the base URL for clients."""
        server = await asyncio.start_server(self._connected, host, port, limit=_BUFFER_BYTES)
        try:
            yield f"http://{host}:{server.sockets[0].getsockname()[1]}/v1"
        finally:
            server.close()
            for writer in self._clients.values():
                writer.transport.abort()
            if self._clients:
                await asyncio.wait(self._clients)

    def report(self, exchange: Exchange) -> None:
        """Show an exchange that begins or ends to the observer."""
        if self._observe is not None:
            self._observe(exchange)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "a connection is served by a task"
        self._clients[task] = writer
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                await _Connection(self, reader, writer).serve()
        finally:
            del self._clients[task]
            writer.close()


class _Connection:
    """One client: one request at a time, any number in a row."""

    def __init__(
        self, server: ModelServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._server = server
        self._reader = reader
        self._writer = writer

    async def serve(self) -> None:
        """Answer until the client is gone or an answer was cut."""
        outcome = "answered"
        while outcome == "answered":
            exchange = await self._read()
            self._server.report(exchange)
            try:
                outcome = await self._respond(exchange)
                await self._writer.drain()
            except ConnectionError:
                outcome = "disconnected"
            exchange.outcome = outcome
            self._server.report(exchange)

    async def _read(self) -> Exchange:
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        request_line, *lines = head.removesuffix("\r\n\r\n").split("\r\n")
        fields = (line.partition(":") for line in lines)
        headers = {name.strip().lower(): value.strip() for name, _, value in fields}
        body = await self._reader.readexactly(int(headers.get("content-length") or 0))
        method, path, *_ = [*request_line.split(" "), "", ""]
        return Exchange(method, path, headers, body, str(self._writer.get_extra_info("peername")))

    async def _respond(self, exchange: Exchange) -> str:
        """Write the response; return how it ended."""
        path = exchange.path.partition("?")[0]
        if exchange.method == "GET" and path.endswith("/models"):
            script = self._server.script
            window = {"context_length": script.window} if script.window else {}
            models = [{"id": name, "object": "model", **window} for name in script.models]
            return self._write_document(200, {"object": "list", "data": models})
        if exchange.method != "POST" or not path.endswith(self._server.speech.path):
            return self._write_document(404, _error("there are chat completions and models here"))
        try:
            request: Any = json.loads(exchange.body)
            conversation = self._server.speech.conversation(request)
            reply = self._server.script.reply_to(conversation)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            return self._write_document(400, _error(f"{type(error).__name__}: {error}"))
        await self._pause(reply.latency_s)
        if reply.status != 200 or reply.error is not None:
            body = reply.error or _error(f"scripted error {reply.status}")
            return self._write_document(reply.status, body, reply.headers)
        model = str(request.get("model") or self._server.script.models[0])
        events = self._server.speech.events(reply, conversation, model, len(exchange.body))
        return await self._stream(reply, events)

    async def _stream(self, reply: Reply, events: Iterator[str]) -> str:
        """Write the chunks, all at once where nothing is to happen between them."""
        pending = bytearray(_STREAM_HEAD)
        for number, text in enumerate(events):
            pause_s = None if number == reply.hang_after else reply.chunk_delay_s
            if number == reply.cut_after:
                self._writer.write(pending)
                return "cut"
            if pause_s != 0:
                self._writer.write(bytes(pending))
                pending.clear()
                await self._pause(pause_s)
            event = text.encode()
            pending += b"%x\r\n%b\r\n" % (len(event), event)
        self._writer.write(pending + _STREAM_END)
        return "answered"

    def _write_document(
        self, status: int, document: object, headers: Mapping[str, str] | None = None
    ) -> str:
        """Write a body that is not streamed: JSON, or the text as it is."""
        body = document if isinstance(document, str) else json.dumps(document)
        payload = body.encode()
        fields = {
            "content-type": "text/html" if isinstance(document, str) else "application/json",
            "content-length": str(len(payload)),
            **(headers or {}),
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        self._writer.write(f"HTTP/1.1 {status} \r\n{head}\r\n".encode() + payload)
        return "answered"

    async def _pause(self, seconds: float | None) -> None:
        """Wait, for ever if None, but no longer than the client does."""
        if seconds == 0:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._reader.read(1)
                raise ConnectionResetError("the client did not wait for its answer")


def _error(message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "code": None}}
