"""Discord's gateway for tests: sessions that can be resumed, over sockets that can fail."""

import json
import zlib
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from aiohttp import WSMsgType, web

DISPATCH, HEARTBEAT, IDENTIFY, RESUME, RECONNECT, INVALID, HELLO, ACK = 0, 1, 2, 6, 7, 9, 10, 11
MESSAGE_CONTENT = 1 << 15
KNOWN_INTENTS = 1 << 0 | 1 << 9 | 1 << 10 | 1 << 12 | 1 << 13 | MESSAGE_CONTENT


class Socket:
    """One connection, compressed as asked."""

    def __init__(self, server: web.WebSocketResponse, *, compress: bool) -> None:
        self.server = server
        self._zlib = zlib.compressobj() if compress else None

    async def send(self, op: int, data: Any, sequence: int | None = None, event: str = "") -> None:
        """Send one payload; who is gone gets nothing."""
        text = json.dumps({"op": op, "d": data, "s": sequence, "t": event or None})
        if self.server.closed:
            return
        if self._zlib is None:
            await self.server.send_str(text)
        else:
            whole = self._zlib.compress(text.encode()) + self._zlib.flush(zlib.Z_SYNC_FLUSH)
            await self.server.send_bytes(whole)


@dataclass(slots=True)
class Session:
    """What a bot that identified was told, for when it comes back."""

    id: str
    told: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    socket: Socket | None = None

    async def tell(self, event: str, data: Any) -> None:
        self.told.append((event, data))
        if self.socket is not None:
            await self.socket.send(DISPATCH, data, len(self.told), event)


class Gateway:
    """The sessions of one bot."""

    def __init__(self, token: str, url: str, state: Any) -> None:
        """`state` knows what a new session is told: its `ready` and its `guilds`."""
        self.interval_s = 41.25
        self.is_deaf = False
        """Sockets stay open, but nothing is answered or told."""
        self.allows_content = True
        self.identified = self.resumed = self.heartbeats = 0
        self.sessions: dict[str, Session] = {}
        self.waiting: list[tuple[str, Any]] = []
        """What the next new session is told: people try again until the bot is there."""
        self._token, self._url, self._state = token, url, state
        self._ids = count(1)

    @property
    def is_connected(self) -> bool:
        return any(each.socket is not None for each in self.sessions.values())

    async def tell(self, event: str, data: Any) -> None:
        """Dispatch an event to all sessions."""
        for session in self.sessions.values():
            socket, session.socket = session.socket, None if self.is_deaf else session.socket
            await session.tell(event, data)
            session.socket = socket

    async def drop(self, *, forget: bool = False) -> None:
        """Close all sockets; forgotten sessions cannot be resumed."""
        for session in list(self.sessions.values()):
            socket, session.socket = session.socket, None
            if socket is not None:
                await socket.server.close(code=4000)
        if forget:
            self.sessions.clear()

    async def order(self, op: int, data: Any = None) -> None:
        """Send an order such as to reconnect."""
        for session in list(self.sessions.values()):
            if session.socket is not None:
                await session.socket.send(op, data)

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
        """One connection, until it ends."""
        assert (request.query["v"], request.query["encoding"]) == ("10", "json")
        server = web.WebSocketResponse()
        await server.prepare(request)
        socket = Socket(server, compress=request.query.get("compress") == "zlib-stream")
        await socket.send(HELLO, {"heartbeat_interval": int(self.interval_s * 1000)})
        session: Session | None = None
        try:
            async for message in server:
                if message.type is not WSMsgType.TEXT or self.is_deaf:
                    continue
                payload = json.loads(message.data)
                if payload["op"] == HEARTBEAT:
                    self.heartbeats += 1
                    await socket.send(ACK, None)
                elif payload["op"] == IDENTIFY:
                    session = await self._identify(socket, payload["d"])
                elif payload["op"] == RESUME:
                    session = await self._resume(socket, payload["d"])
        finally:
            if session is not None and session.socket is socket:
                session.socket = None
                if server.close_code in (1000, 1001):
                    self.sessions.pop(session.id, None)
        return server

    async def _identify(self, socket: Socket, data: dict[str, Any]) -> Session | None:
        if data["token"] != self._token:
            await socket.server.close(code=4004)
            return None
        if data["intents"] & ~KNOWN_INTENTS:
            await socket.server.close(code=4013)
            return None
        if data["intents"] & MESSAGE_CONTENT and not self.allows_content:
            await socket.server.close(code=4014)
            return None
        self.identified += 1
        session = Session(f"session-{next(self._ids)}", socket=socket)
        self.sessions[session.id] = session
        ready = {"v": 10, "session_id": session.id, "resume_gateway_url": self._url}
        await session.tell("READY", {**self._state.ready(), **ready})
        for guild in self._state.guilds():
            await session.tell("GUILD_CREATE", guild)
        waiting, self.waiting = self.waiting, []
        for event, interaction in waiting:
            await session.tell(event, interaction)
        return session

    async def _resume(self, socket: Socket, data: dict[str, Any]) -> Session | None:
        session = self.sessions.get(data["session_id"])
        if data["token"] != self._token or session is None:
            await socket.send(INVALID, data=False)
            return None
        self.resumed += 1
        for sequence, (event, told) in enumerate(session.told, 1):
            if sequence > data["seq"]:
                await socket.send(DISPATCH, told, sequence, event)
        session.socket = socket
        await session.tell("RESUMED", {})
        return session
