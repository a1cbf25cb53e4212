"""signal-cli's daemon for tests: an HTTP port with JSON-RPC and a stream of received messages."""

import asyncio
import base64
import json
import random
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from aiohttp import web

from gateway_service.platforms.signal.config import SignalConfig
from tests.fakes.http_server import bind, cut, serving

ACCOUNT = "+15550001111"
LOOK_S = 0.02
FILE = b"\x89PNG of an owl"
REFUSALS = {
    "limited": {"code": -5, "message": "Rate limit exceeded"},
    "refused": {"code": -1, "message": "Unregistered user"},
}


class FakeSignalCli:
    """The daemon's state; `sent` has the text of each message by its timestamp."""

    def __init__(self) -> None:
        self.url = ""
        self.sent: dict[str, str] = {}
        self.calls: list[dict[str, Any]] = []
        self.faults: list[str] = []
        """What becomes of the next messages: `limited`, `refused` or `drop_after`."""
        self.loss = 0.0
        """How many answers are lost."""
        self.stream_count = 0
        """Listeners, until it is seen that they have gone; each event goes to one of them."""
        self._dice = random.Random(1)
        self._received = deque[str]()
        self._times = count(1_700_000_000_000)

    async def say(self, number: str, text: str, **data: Any) -> int:
        """Somebody writes."""
        timestamp = next(self._times)
        message = {"timestamp": timestamp, "message": text, "expiresInSeconds": 0, **data}
        await self.tell(number, dataMessage=message)
        return timestamp

    async def tell(self, number: str, **envelope: Any) -> None:
        """Something is received."""
        sender = {"source": number, "sourceNumber": number, "sourceName": "Ada", "sourceDevice": 1}
        self._received.append(json.dumps({"envelope": {**sender, **envelope}, "account": ACCOUNT}))

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        if request.path == "/api/v1/check":
            return web.Response()
        if request.path == "/api/v1/events":
            return await self._stream(request)
        call = await request.json()
        assert call["jsonrpc"] == "2.0"
        assert call["id"]
        assert request.path == "/api/v1/rpc"
        self.calls.append(call)
        answer = getattr(self, f"_{call['method']}")(call.get("params", {}))
        fault = self.faults.pop(0) if call["method"] == "send" and self.faults else ""
        if call["method"] == "send" and self._dice.random() < self.loss:
            fault = "drop_after"
        if fault in REFUSALS:
            answer = {"error": REFUSALS[fault]}
        elif call["method"] == "send" and "error" not in answer:
            self._keep(call["params"], answer)
        if fault == "drop_after":
            return cut(request)
        return web.json_response({"jsonrpc": "2.0", "id": call["id"], **answer})

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        assert request.query["account"] == ACCOUNT
        stream = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await stream.prepare(request)
        await stream.write(b":\n")
        self.stream_count += 1
        try:
            # aiohttp does not end a handler when whoever asked has gone.
            while request.transport is not None and not request.transport.is_closing():
                if self._received:
                    event = self._received.popleft()
                    await stream.write(f"event:receive\ndata:{event}\n\n".encode())
                await asyncio.sleep(LOOK_S)
        finally:
            self.stream_count -= 1
        return stream

    def _send(self, params: dict[str, Any]) -> dict[str, Any]:
        assert ("recipient" in params) != ("groupId" in params)
        edited = params.get("editTimestamp")
        if edited is not None and str(edited) not in self.sent:
            return {"error": {"code": -1, "message": "No message found to edit"}}
        for each in params.get("attachments", ()):
            head, _, encoded = each.partition(",")
            assert head.startswith("data:")
            assert head.endswith(";base64")
            base64.b64decode(encoded, validate=True)
        return {"result": {"timestamp": next(self._times), "results": [{"type": "SUCCESS"}]}}

    def _keep(self, params: dict[str, Any], answer: dict[str, Any]) -> None:
        key = params.get("editTimestamp") or answer["result"]["timestamp"]
        self.sent[str(key)] = params["message"]

    def _sendTyping(self, params: dict[str, Any]) -> dict[str, Any]:
        return {"result": {}}

    def _listAccounts(self, params: dict[str, Any]) -> dict[str, Any]:
        return {"result": [{"number": ACCOUNT}]}

    def _getAttachment(self, params: dict[str, Any]) -> dict[str, Any]:
        assert "recipient" in params or "groupId" in params
        if params["id"] == "gone":
            return {"error": {"code": -1, "message": "Could not find attachment"}}
        data = FILE * 100_000 if params["id"] == "large" else FILE
        return {"result": {"data": base64.b64encode(data).decode()}}


def config_of(server: FakeSignalCli) -> SignalConfig:
    """The settings of the account."""
    return SignalConfig(account=ACCOUNT, http_url=server.url)


@asynccontextmanager
async def fake_signal_cli() -> AsyncGenerator[FakeSignalCli]:
    """A running daemon."""
    server = FakeSignalCli()
    listener, server.url = bind()
    async with serving(listener, server.serve):
        yield server
