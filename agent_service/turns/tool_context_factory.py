"""Creates the context of each tool call."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from sqlalchemy import Connection

from agent_service.clients.commands import SessionCommands
from agent_service.clients.files import SessionFiles
from agent_service.clients.leases import SandboxLeases, TurnSandbox
from agent_service.clients.skills import SandboxSkills
from agent_service.clients.uploads import AllSupplies, SandboxUploads
from agent_service.profiles.skills.shelf import SkillShelves
from agent_service.records.background import WatchedCommand, WatchRequest
from agent_service.records.calls import Decided, PendingCall
from agent_service.records.sandbox import SandboxInfo
from agent_service.records.turn_state import LiveTurn
from agent_service.security import url_provenance
from agent_service.storage import approvals, background, sessions, uploads
from agent_service.storage.uploads import PlacedFile
from agent_service.tools.base import Caller, ToolContext, ToolFailed
from agent_service.tools.guards.shell_input import KEPT
from agent_service.tools.picture_viewer import PictureViewer
from agent_service.turns.answer_files import Workplace
from agent_service.turns.background_notifier import notice_of
from agent_service.turns.delegation import CallKiller, CallSubagents, Delegation
from agent_service.turns.result_pictures import ResultPictures
from services.clock import SystemClock
from services.database import Database
from services.database.leases import LeaseTable

_T = TypeVar("_T")


class ToolContextFactory:
    """Creates tool contexts."""

    def __init__(
        self,
        database: Database,
        turns: LeaseTable,
        sandboxes: SandboxLeases,
        skills: SkillShelves,
        delegation: Delegation,
        sight: PictureViewer,
    ) -> None:
        self._database = database
        self._turns = turns
        self._sandboxes = sandboxes
        self._skills = skills
        self._supplies = AllSupplies((SandboxSkills(skills, database), SandboxUploads(database)))
        self._delegation = delegation
        self._sight = sight

    def make(
        self, turn: LiveTurn, call: PendingCall, progress: Callable[[str], None]
    ) -> ToolContext:
        sandbox = TurnSandbox(self._sandboxes, turn, resumed=call.resumed, supplies=self._supplies)
        rows = _SessionRows(self._database, self._turns, turn, sandbox)
        files = SessionFiles(sandbox)
        pictures = ResultPictures(self._sight, turn.model, files, rows.keep_file)
        decided = turn.decided.get(call.key, Decided())
        return ToolContext(
            key=call.key,
            commands=SessionCommands(sandbox),
            files=files,
            state=rows,
            decision=decided.decision,
            progress=progress,
            decided_on=decided.binding,
            answer=decided.answer,
            place=lambda: sandbox.place,
            news=lambda: sandbox.news,
            show=pictures.show,
            records=rows,
            unattended=turn.unattended,
            sandbox=lambda: _sandbox_info(sandbox),
            skills=self._skills.for_profile(turn.profile),
            caller=_caller(turn),
            subagents=CallSubagents(self._delegation, turn, call.key),
            conversation=_conversation(turn),
        )

    def workplace(self, turn: LiveTurn) -> Workplace:
        sandbox = TurnSandbox(self._sandboxes, turn, resumed=False)
        rows = _SessionRows(self._database, self._turns, turn, sandbox)
        return Workplace(SessionFiles(sandbox), lambda: _sandbox_info(sandbox), rows, rows)

    def endings(self, turn: LiveTurn) -> CallKiller:
        sandbox = TurnSandbox(self._sandboxes, turn, resumed=False)
        return CallKiller(SessionCommands(sandbox, interrupted=True), self._delegation, turn)


def _conversation(turn: LiveTurn) -> Sequence[bytes]:
    summary = turn.compression.summary.encode()
    return [message for message in turn.messages[1:] if message != summary]


def _caller(turn: LiveTurn) -> Caller:
    own = (turn.profile, turn.session_id, turn.id, turn.origin, turn.options)
    return Caller(*own, is_private=turn.request.is_private)


async def _sandbox_info(sandbox: TurnSandbox) -> SandboxInfo:
    # Asking for the place has no effect, so a replaced sandbox does not matter.
    return (await sandbox.hold(keyed=False)).place


class _SessionRows:
    def __init__(
        self, database: Database, turns: LeaseTable, turn: LiveTurn, sandbox: TurnSandbox
    ) -> None:
        self._database = database
        self._turns = turns
        self._turn = turn
        self._sandbox = sandbox

    async def _write(self, change: Callable[[Connection], _T]) -> _T:
        def fenced(conn: Connection) -> _T:
            self._turns.fence(conn, self._turn.lease)
            return change(conn)

        return await self._database.write(fenced)

    async def get(self, name: str) -> Any:
        session_id, kept = self._turn.session_id, self._turn.kept
        if name in kept:
            return kept[name]
        names = KEPT if name in KEPT else {name}
        found = await self._database.read(
            lambda conn: {each: sessions.get_state(conn, session_id, each) for each in names}
        )
        if name not in KEPT:
            return found[name]
        kept |= found | kept  # another call may have stored one meanwhile
        return kept[name]

    async def put(self, name: str, value: Any) -> None:
        session_id = self._turn.session_id
        await self._write(lambda conn: sessions.put_state(conn, session_id, name, value))
        if name in KEPT:
            self._turn.kept[name] = value

    async def add(self, name: str, text: str) -> None:
        if text in (await self.get(name) or ()):
            return
        session_id = self._turn.session_id
        await self._write(lambda conn: sessions.add_texts(conn, session_id, name, (text,)))

    async def is_allowed(self, tool: str, binding: str) -> bool:
        turn = self._turn
        return await self._database.read(
            lambda conn: approvals.is_granted(conn, turn.profile, turn.session_id, tool, binding)
        )

    async def allow(self, tool: str, binding: str, given_by: str) -> None:
        turn, call = self._turn, (tool, binding)
        await self._write(
            lambda conn: approvals.put_grant(conn, turn.profile, turn.session_id, call, given_by)
        )

    async def add_links(self, text: str) -> None:
        if found := await asyncio.to_thread(url_provenance.keys_in, text):
            session_id = self._turn.session_id
            await self._write(lambda conn: sessions.add_links(conn, session_id, found))

    async def unknown_links(self, urls: Sequence[str]) -> list[str]:
        """Return links that neither the session nor, for a subagent, the delegating one knows."""
        own, parent = self._turn.session_id, self._turn.charged_session_id

        def read(conn: Connection) -> set[str]:
            kept = (
                sessions.get_state(conn, each, url_provenance.STATE) or () for each in (own, parent)
            )
            return {key for keys in kept for key in keys}

        known = await self._database.read(read)
        return [url for url in urls if url_provenance.key_of(url) not in known]

    async def keep_file(self, path: str, sha256: str, data: bytes) -> None:
        file, its = PlacedFile(path, sha256), (self._turn.session_id, SystemClock().now())
        await self._write(lambda conn: uploads.keep(conn, data, file, *its))

    async def watch(self, key: str, command: str, wanted: WatchRequest) -> None:
        sandbox_id = self._sandbox.place.sandbox_id
        watched = WatchedCommand(key, sandbox_id, command, notice_of(self._turn), wanted)
        if not await self._write(lambda conn: background.add(conn, watched)):
            raise ToolFailed(
                f"The command runs, but nobody is told of it: {background.MAX_OF_SESSION} others "
                "are watched already."
            )

    async def mark_seen(self, key: str) -> None:
        await self._database.write(lambda conn: background.mark_seen(conn, key))
