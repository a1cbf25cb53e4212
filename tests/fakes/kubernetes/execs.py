"""Commands in pods over WebSockets: the channels of v5."""

import asyncio
import json
import struct

from aiohttp import WSMsgType, web

from executor_service.backends.docker.engine import Connection
from executor_service.backends.kubernetes.api import Json
from tests.fakes.kubernetes.errors import status_of
from tests.fakes.kubernetes.kubelet import Kubelet, start_in

PROTOCOL = "v5.channel.k8s.io"
_STDIN, _STATUS, _CLOSE = 0, 3, 255
_HEAD = struct.Struct("!BxxxI")
_PIECE_BYTES = 32 * 1024


class Execs:
    """The streams that are open."""

    def __init__(self, kubelet: Kubelet) -> None:
        self._kubelet = kubelet
        self._open: dict[web.WebSocketResponse, web.Request] = {}

    def cut(self) -> int:
        """Break every stream as a load balancer would, without a word."""
        transports = [request.transport for request in self._open.values()]
        for transport in transports:
            if transport is not None:
                transport.abort()
        return len(transports)

    async def serve(self, request: web.Request, pod: Json) -> web.StreamResponse:
        container = self._kubelet.container_of(pod)
        socket = web.WebSocketResponse(protocols=(PROTOCOL,), compress=False)
        await socket.prepare(request)
        ident, line = await start_in(
            self._kubelet.engine, container, request.query.getall("command")
        )
        self._open[socket] = request
        sending = asyncio.ensure_future(self._send(socket, line, ident))
        try:
            await self._take(socket, line)
        finally:
            del self._open[socket]
            await line.close()
            sending.cancel()
            await asyncio.wait([sending])
        return socket

    async def _take(self, socket: web.WebSocketResponse, line: Connection) -> None:
        async for message in socket:
            if message.type is not WSMsgType.BINARY or not message.data:
                continue
            channel, data = message.data[0], message.data[1:]
            if channel == _STDIN:
                line.writer.write(data)
                await line.writer.drain()
            elif channel == _CLOSE and data == bytes([_STDIN]):
                line.writer.write_eof()

    async def _send(self, socket: web.WebSocketResponse, line: Connection, ident: str) -> None:
        for channel in (1, 2, 3):
            # A real server begins with an empty message on every channel.
            await socket.send_bytes(bytes([channel]))
        try:
            while True:
                channel, size = _HEAD.unpack(await line.reader.readexactly(_HEAD.size))
                while size:
                    data = await line.reader.read(min(size, _PIECE_BYTES))
                    if not data:
                        return
                    size -= len(data)
                    await socket.send_bytes(bytes([channel]) + data)
        except (asyncio.IncompleteReadError, ConnectionError):
            status = await self._status(ident)
        await socket.send_bytes(bytes([_STATUS]) + json.dumps(status).encode())
        await socket.close()

    async def _status(self, ident: str) -> Json:
        engine = self._kubelet.engine
        code = (await engine.ask("GET", f"/exec/{ident}/json"))["ExitCode"]
        if not code:
            return {"metadata": {}, "status": "Success"}
        message = f"command terminated with non-zero exit code: exit status {code}"
        causes = [{"reason": "ExitCode", "message": str(code)}]
        failed = status_of(500, message)
        return {**failed, "reason": "NonZeroExitCode", "details": {"causes": causes}}
