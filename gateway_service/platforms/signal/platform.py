"""Signal, through the HTTP port of signal-cli's daemon."""

import base64
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Self

from gateway_service.errors import MessageGone, OutcomeUnknown, RateLimited, Refused, Unreachable
from gateway_service.messages import Attachment, Content, RemoteFile
from gateway_service.platforms.base import (
    Destination,
    Platform,
    Received,
    Sink,
    Traits,
    store_at_once,
)
from gateway_service.platforms.http_errors import translated
from gateway_service.platforms.markup import PLAIN, render
from gateway_service.platforms.rate_limits import Rate
from gateway_service.platforms.signal.config import SignalConfig
from gateway_service.platforms.signal.events import address, read_event
from services.rpc.uploads import CHUNK_BYTES
from services.validation import json_object

if TYPE_CHECKING:
    import httpx

NAME = "signal"
CALL_S = 30.0
SILENT_S = 60.0
"""signal-cli writes something every 15 seconds."""
DEFAULT_WAIT_S = 60.0
_FILE = re.compile(rb'"data"\s*:\s*"')
_RATE_LIMITED = -5
"""The error code of signal-cli when the server asks to wait."""


class SignalPlatform(Platform):
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
        deaf_after_s=2 * SILENT_S,
        markup="The platform shows plain text only.",
    )

    def __init__(self, config: SignalConfig) -> None:
        self.account_id = config.account
        self._url = config.http_url.rstrip("/")
        self._rpc_url = f"{self._url}/api/v1/rpc"
        self._client: httpx.AsyncClient | None = None
        self._calls = 0

    @classmethod
    def configured(cls, config: SignalConfig) -> Self:
        return cls(config)

    async def __aenter__(self) -> Self:
        import httpx

        client = httpx.AsyncClient(timeout=CALL_S, trust_env=False)
        try:
            with translated("signal-cli"):
                (await client.get(f"{self._url}/api/v1/check")).raise_for_status()
        except BaseException:
            await client.aclose()
            raise
        self._client = client
        return self

    async def __aexit__(self, *_: object) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def listen(self, sink: Sink) -> None:
        # signal-cli has confirmed a message to the server when it passes it on.
        import httpx

        params, timeout = {"account": self.account_id}, httpx.Timeout(CALL_S, read=SILENT_S)
        with translated("signal-cli"):
            async with self._connected.stream(
                "GET", f"{self._url}/api/v1/events", params=params, timeout=timeout
            ) as stream:
                stream.raise_for_status()
                await sink.store()
                data = list[str]()
                async for line in stream.aiter_lines():
                    if line.startswith("data:"):
                        data.append(line.removeprefix("data:").removeprefix(" "))
                    elif not line and data:
                        event = read_event("\n".join(data), self.account_id)
                        data.clear()
                        await store_at_once(sink, Received((event,) if event else ()))
                    elif line.startswith(":"):  # it is alive
                        await sink.store()
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
        call = self._request("getAttachment", id=file_id, **address(chat_id))
        with translated("signal-cli"):
            async with self._connected.stream("POST", self._rpc_url, json=call) as answer:
                answer.raise_for_status()
                async with aclosing(_decoded(answer.aiter_bytes(CHUNK_BYTES))) as chunks:
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
        with translated("signal-cli"):
            call = self._request(method, **params)
            answer = await self._connected.post(self._rpc_url, json=call)
            answer.raise_for_status()
        return _result(answer.content)

    def _request(self, method: str, **params: Any) -> dict[str, Any]:
        self._calls += 1
        params = {"account": self.account_id, **params}
        return {"jsonrpc": "2.0", "id": str(self._calls), "method": method, "params": params}

    @property
    def _connected(self) -> "httpx.AsyncClient":
        if self._client is None:
            raise Unreachable("not connected")
        return self._client


def _result(answer: bytes) -> Any:
    said = json_object(answer)
    if said is None:
        raise OutcomeUnknown("signal-cli answered no JSON")
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
        _result(unread)
    raise OutcomeUnknown("signal-cli did not send the whole file")


def _encode(file: Attachment) -> str:
    data = base64.b64encode(file.data).decode()
    return f"data:{file.mime};filename={file.name};base64,{data}"
