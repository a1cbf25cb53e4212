"""Signal, through the HTTP port of signal-cli's daemon."""

import asyncio
import base64
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, suppress
from io import BytesIO
from typing import Any
from urllib.parse import quote

from gateway_service.errors import (
    AccountRefused,
    MessageGone,
    OutcomeUnknown,
    RateLimited,
    Refused,
    Unreachable,
)
from gateway_service.messages import Attachment, Content, RemoteFile
from gateway_service.platforms.base import Destination, Received, Sink, Traits, store_at_once
from gateway_service.platforms.http_api import SILENCE_S, HttpApi, HttpPlatform
from gateway_service.platforms.markup import PLAIN, render
from gateway_service.platforms.rate_limits import Rate
from gateway_service.platforms.signal.config import SignalConfig
from gateway_service.platforms.signal.events import address, read_event
from services.rpc.uploads import CHUNK_BYTES
from services.validation import json_object

NAME = "signal"
RPC = "/api/v1/rpc"
CALL_S = 30.0
DEFAULT_WAIT_S = 60.0
_FILE = re.compile(rb'"data"\s*:\s*"')
_RATE_LIMITED = -5
"""The error code of signal-cli when the server asks to wait."""


class SignalPlatform(HttpPlatform[HttpApi]):
    """A phone number."""

    name = NAME
    traits = Traits(
        message_units=2000,
        rate=Rate(per_second=1.0, burst=5),
        buttons=0,
        # Each edit is a message to the server, which limits them.
        edit_interval_s=3.0,
        file_bytes=95 << 20,
        caption_units=2000,
        deaf_after_s=2 * SILENCE_S,  # signal-cli writes something every 15 seconds
        markup="The platform shows plain text only.",
    )

    def __init__(self, config: SignalConfig) -> None:
        self.account_id = self.identity = config.account
        self._api = HttpApi("signal-cli", config.http_url, has_proxy=False)
        self._calls = 0

    async def _log_in(self) -> None:
        async with self._api.stream("GET", "/api/v1/check", CALL_S):
            pass
        with suppress(Refused):  # a daemon of one account does not know this call
            numbers = [each["number"] for each in await self._rpc("listAccounts")]
            if self.account_id not in numbers:
                told = f"signal-cli runs {', '.join(numbers)}; check SIGNAL_ACCOUNT"
                raise AccountRefused(told)

    async def listen(self, sink: Sink) -> None:
        # signal-cli has confirmed a message to the server when it passes it on.
        url = f"/api/v1/events?account={quote(self.account_id)}"
        async with self._api.stream("GET", url) as stream:
            await sink.store()
            async for texts in _events(stream.content.iter_any()):
                # What has come is stored together, as signal-cli does not send it again.
                events = [read_event(text, self.account_id) for text in texts]
                await store_at_once(sink, Received([each for each in events if each]))
        raise Unreachable("signal-cli has ended the stream of messages")

    async def send(self, destination: Destination, content: Content, key: str) -> str:
        more: dict[str, Any] = {}
        if content.attachment is not None:
            more = {"attachments": [_encode(content.attachment)]}
        return await self._send(destination, content, **more)

    async def edit(self, destination: Destination, message_id: str, content: Content) -> None:
        try:
            await self._send(destination, content, editTimestamp=int(message_id))
        except Refused as error:
            raise MessageGone(error.message) from error

    async def typing(self, destination: Destination) -> None:
        await self._call("sendTyping", **address(destination.chat_id))

    async def download(self, file: RemoteFile) -> AsyncGenerator[bytes]:
        chat_id, _, file_id = file.id.rpartition("/")
        params = {"account": self.account_id, "id": file_id, **address(chat_id)}
        call = self._request("getAttachment", **params)
        async with (
            self._api.stream("POST", RPC, json=call) as answer,
            aclosing(_decoded(answer.content.iter_chunked(CHUNK_BYTES))) as chunks,
        ):
            async for chunk in chunks:
                yield chunk

    async def _send(self, destination: Destination, content: Content, **more: Any) -> str:
        text = render(content.text, PLAIN)
        result = await self._call("send", message=text, **address(destination.chat_id), **more)
        failed = [each["type"] for each in result.get("results", ()) if each["type"] != "SUCCESS"]
        if failed and len(failed) == len(result["results"]):
            raise Refused(f"signal: {failed[0]}")
        return str(result["timestamp"])

    async def _call(self, method: str, **params: Any) -> Any:
        return await self._rpc(method, account=self.account_id, **params)

    async def _rpc(self, method: str, **params: Any) -> Any:
        body = await asyncio.to_thread(json.dumps, self._request(method, **params))
        headers = {"Content-Type": "application/json"}
        options = {"data": BytesIO(body.encode()), "headers": headers}
        return _result(await self._api.call("POST", RPC, CALL_S, **options))

    def _request(self, method: str, **params: Any) -> dict[str, Any]:
        self._calls += 1
        return {"jsonrpc": "2.0", "id": str(self._calls), "method": method, "params": params}


async def _events(stream: AsyncIterator[bytes]) -> AsyncGenerator[list[str]]:
    """Yield the data of the server-sent events that came together; maybe of none."""
    rest, data = b"", list[bytes]()
    async for chunk in stream:
        *lines, rest = (rest + chunk).split(b"\n")
        found = list[str]()
        for line in lines:
            if line.startswith(b"data:"):
                data.append(line.removeprefix(b"data:").strip())
            elif data and not line.strip():
                found.append(b"\n".join(data).decode(errors="replace"))
                data.clear()
        yield found


def _result(said: dict[str, Any]) -> Any:
    if error := said.get("error"):
        if error.get("code") == _RATE_LIMITED:
            raise RateLimited(f"signal: {error['message']}", DEFAULT_WAIT_S)
        raise Refused(f"signal: {error['message']}")
    return said["result"]


async def _decoded(answer: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    """Yield a file as its answer arrives: only the sender says how large it is."""
    unread, is_file = b"", False
    async for chunk in answer:
        unread += chunk
        if not is_file:
            head = _FILE.search(unread)
            if head is None and len(unread) > CHUNK_BYTES:
                break
            if head is None:
                continue
            unread, is_file = unread[head.end() :], True
        encoded, is_end, _ = unread.partition(b'"')
        whole = len(encoded) - len(encoded) % 4
        yield base64.b64decode(encoded[:whole])
        if is_end:
            return
        unread = encoded[whole:]
    if not is_file:
        _result(json_object(unread) or {"result": ""})
    raise OutcomeUnknown("signal-cli did not send the whole file")


def _encode(file: Attachment) -> str:
    data, name = base64.b64encode(file.data).decode(), re.sub(r"[;,]", "_", file.name)
    return f"data:{file.mime};filename={name};base64,{data}"
