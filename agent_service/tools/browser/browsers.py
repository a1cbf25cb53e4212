"""The browsers of sessions: found again after a restart, and started anew when they are gone."""

import asyncio
import secrets
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct, field

from agent_service.records.sandbox import SandboxUnavailable
from agent_service.tools.base import Caller, ToolContext, ToolFailed

STATE = "browser"
"""Name of the session's value that says where its browser is, and what it shows."""
LIMIT_S = 90.0
"""How long a request may take."""
MAX_OPEN = 256
"""Browsers that are remembered; others are found again by the session's value."""
_HERE = Path(__file__).parent
_PARTS = ("egress", "program")
_LOADER = """\
import sys, types
for name, text in zip(sys.argv[1::2], sys.argv[2::2]):
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(text, name, "exec"), module.__dict__)
module.main()
"""
_LOOKS = frozenset({"navigate", "snapshot", "screenshot", "tabs"})
"""What can be done in a page that was loaded again."""


class BrowserGone(ToolFailed):
    """The browser has ended; the message says why."""


class BrowserAnswer(Struct, frozen=True):
    """What the browser answers."""

    text: str
    url: str = ""
    is_error: bool = False
    picture: str = ""
    """A screenshot in base64; empty if there is none."""
    files: tuple[Mapping[str, str], ...] = ()
    """Name and path of each download."""


class Connection(Protocol):
    """A browser's program, and files where it runs; SandboxUnavailable if it cannot be reached."""

    is_new: bool
    """Whether it was started just now and waits for its settings."""

    @property
    def place(self) -> Mapping[str, str]:
        """How to find it again."""
        ...

    async def exchange(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the answer to a request; BrowserGone if there is none."""
        ...

    async def put(self, name: str, data: bytes) -> str:
        """Write a file, and return its path there."""
        ...

    async def get(self, path: str, max_bytes: int) -> bytes: ...

    async def close(self) -> None: ...


Connect = Callable[[Caller, Mapping[str, str]], Awaitable[Connection]]
"""Finds a session's browser by its place, or starts one."""


class Session(Struct):
    """A session's browser."""

    connection: Connection
    url: str = ""


class Browsers(Struct, frozen=True):
    """The browsers of a deployment's sessions."""

    connect: Connect | None = None
    """None if no browser is configured."""
    lack: str = ""
    """What is missing although one is configured."""
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What a new browser is told: allowed and denied hosts, and where it is."""
    sessions: dict[str, Session] = field(default_factory=dict[str, Session])

    async def ask(self, context: ToolContext, op: str, **fields: Any) -> BrowserAnswer:
        """Return the browser's answer; ToolFailed if there is no browser."""
        session, note = await self._session(context)
        if note and op not in _LOOKS:
            return BrowserAnswer(note, session.url, is_error=True)
        try:
            answer = await self._exchange(session, {"op": op, **fields})
        except BrowserGone as gone:
            self.sessions.pop(context.caller.session_id, None)
            session, note = await self._session(context, str(gone))
            if op not in _LOOKS:
                return BrowserAnswer(note, session.url, is_error=True)
            answer = await self._exchange(session, {"op": op, **fields})
        await self._remember(context, session, answer.url)
        if note:
            text = f"{note.partition(chr(10))[0]}\n{answer.text}"
            return BrowserAnswer(text, answer.url, answer.is_error, answer.picture, answer.files)
        return answer

    async def put(self, context: ToolContext, name: str, data: bytes) -> str:
        """Write a file where the browser is, and return its path."""
        session, note = await self._session(context)
        if note:
            raise ToolFailed(note.partition("\n")[0])
        return await session.connection.put(name, data)

    async def get(self, context: ToolContext, path: str, max_bytes: int) -> bytes:
        session, _ = await self._session(context)
        return await session.connection.get(path, max_bytes)

    async def _session(self, context: ToolContext, why: str = "") -> tuple[Session, str]:
        """Return the session's browser, and what the model must know if it was started anew."""
        session_id = context.caller.session_id
        if (known := self.sessions.get(session_id)) is not None:
            return known, ""
        assert self.connect is not None, "without a browser no tool is offered"
        kept: dict[str, Any] = await context.state.get(STATE) or {}
        url = str(kept.get("url") or "")
        session = Session(await self.connect(context.caller, kept.get("place") or {}), url)
        note = ""
        if session.connection.is_new:
            note = await self._begin(session, why)
        while len(self.sessions) >= MAX_OPEN:
            self.sessions.pop(next(iter(self.sessions)))
        self.sessions[session_id] = session
        await context.state.put(STATE, {"url": url, "place": dict(session.connection.place)})
        return session, note

    async def _begin(self, session: Session, why: str) -> str:
        """Tell a new browser its settings, and load the session's page again."""
        try:
            begun = await self._exchange(session, self.settings)
            if begun.is_error:
                raise ToolFailed(begun.text)
            if not session.url.startswith("http"):
                return ""
            shown = await self._exchange(session, {"op": "navigate", "url": session.url})
        except BrowserGone as gone:
            raise ToolFailed(f"The browser did not start: {gone}.") from gone
        anew = f"[The browser was started anew{f', because {why}' if why else ''}"
        gone = "cookies, forms, other tabs and earlier references are gone"
        return f"{anew}: {gone}, and {session.url} was loaded again.]\n{shown.text}"

    async def _exchange(self, session: Session, request: Mapping[str, Any]) -> BrowserAnswer:
        numbered = {"id": secrets.randbits(48), **request}
        try:
            async with asyncio.timeout(LIMIT_S):
                found = await session.connection.exchange(numbered)
        except TimeoutError:
            await session.connection.close()
            raise BrowserGone(f"it did not answer within {LIMIT_S:.0f} s") from None
        except SandboxUnavailable as error:
            raise ToolFailed(f"The browser cannot be reached: {error}") from error
        return BrowserAnswer(
            text=str(found.get("text", "")),
            url=str(found.get("url", "")),
            is_error=bool(found.get("is_error")),
            picture=str(found.get("picture") or ""),
            files=tuple(found.get("files") or ()),
        )

    async def _remember(self, context: ToolContext, session: Session, url: str) -> None:
        if url and url != session.url:
            session.url = url
            place = dict(session.connection.place)
            await context.state.put(STATE, {"url": url, "place": place})


def program_argv(python: str = "") -> tuple[str, ...]:
    """Return the command that drives a browser; without a Python it uses this one."""
    package = __name__.rpartition(".")[0]
    parts = [(f"{package}.{name}", (_HERE / f"{name}.py").read_text("utf-8")) for name in _PARTS]
    return (python or sys.executable, "-c", _LOADER, *(each for part in parts for each in part))
