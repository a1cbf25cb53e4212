"""Old conversations: imported once from the home's `sessions` folder, and exported as documents."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from msgspec.structs import replace

from agent_service.records import transcripts
from agent_service.records.transcripts import Transcript, TranscriptMessage
from agent_service.storage import sessions
from agent_service.storage import transcripts as storage
from agent_service.storage.transcripts import ImportResult
from services.clock import Clock
from services.database import Database
from services.errors import DatabaseUnavailable, InvalidArgument
from services.home.paths import DEFAULT_PROFILE, HomePaths
from services.redaction.redactor import Redactor, changed_texts

PIECE_BYTES = 64 * 1024
_PAGE = 100
_NAMES = frozenset({"role", "type", "id", "name", "tool_call_id"})
"""Fields of messages that link them."""

_log = logging.getLogger(__name__)


class Histories:
    """Imports sessions from documents and exports them."""

    def __init__(
        self, database: Database, home: HomePaths, clock: Clock, redactor: Redactor
    ) -> None:
        self._database = database
        self._home = home
        self._clock = clock
        self._redactor = redactor
        self._taking = asyncio.Lock()

    async def take(self, profile: str, data: bytes, name: str) -> ImportResult:
        """Store the session of a document once; InvalidArgument if it is invalid."""
        now = self._clock.now()
        found = await asyncio.to_thread(self._parse, data, name, now)
        return await self._database.write(lambda conn: storage.add(conn, profile, found, now))

    async def write(self, profile: str, session_id: str) -> AsyncGenerator[bytes]:
        head = await self._database.read(lambda conn: storage.header(conn, session_id, profile))
        waiting = transcripts.opening(head.session_id, head.model, head.title)
        after, separator = 0, ""
        while page := await self._database.read(
            lambda conn, after=after: sessions.messages(conn, session_id, profile, after, _PAGE)
        ):
            for stored in page:
                said = TranscriptMessage(stored.content, stored.reasoning, stored.created_at)
                waiting += separator + transcripts.render(said)
                separator = transcripts.SEPARATOR
            after = page[-1].sequence
            data = waiting.encode(errors="replace")
            waiting = ""
            for piece in [data[at : at + PIECE_BYTES] for at in range(0, len(data), PIECE_BYTES)]:
                yield piece
        yield (waiting + transcripts.CLOSING).encode()

    async def run(self) -> None:
        """Import new documents once, as the agent starts."""
        try:
            await self.take_new()
        except DatabaseUnavailable as error:
            _log.error("old sessions are taken at the next start: %s", error)

    async def take_new(self) -> int:
        """Import new documents from all profiles' folders; return the number of new sessions."""
        async with self._taking:
            folders = await asyncio.to_thread(_folders, self._home)
            return sum([await self._take_all(profile, folder) for profile, folder in folders])

    async def _take_all(self, profile: str, folder: Path) -> int:
        known = await self._database.read(lambda conn: storage.known_files(conn, profile))
        new = [path for path in await asyncio.to_thread(_files, folder) if path.name not in known]
        count = 0
        for path in new:
            imported = await self._take_file(profile, path)
            if imported is not None:
                count += imported.is_new
                await self._database.write(
                    lambda conn, path=path, imported=imported: storage.note_file(
                        conn, profile, path.name, imported
                    )
                )
        if count:
            _log.info("took %d old sessions from %s", count, folder)
        return count

    async def _take_file(self, profile: str, path: Path) -> ImportResult | None:
        try:
            data, changed_at = await asyncio.to_thread(_read, path)
            found = await asyncio.to_thread(self._parse, data, path.stem, changed_at)
        except OSError as error:
            _log.warning("%s cannot be read: %s", path, error.strerror)
            return None
        except InvalidArgument as error:
            _log.warning("%s is not taken: %s", path, error)
            return ImportResult("", False, 0, error.message)
        now = self._clock.now()
        return await self._database.write(lambda conn: storage.add(conn, profile, found, now))

    def _parse(self, data: bytes, name: str, fallback: datetime) -> Transcript:
        found, redact = transcripts.parse(data, name, fallback), self._redactor.redact
        said = (
            replace(
                one,
                content=cast("dict[str, Any]", changed_texts(one.content, redact, _NAMES)),
                reasoning=redact(one.reasoning),
            )
            for one in found.messages
        )
        return replace(found, title=redact(found.title), messages=tuple(said))


def _folders(home: HomePaths) -> list[tuple[str, Path]]:
    profiles = home.root / "profiles"
    names = sorted(path.name for path in profiles.iterdir()) if profiles.is_dir() else []
    found = [(DEFAULT_PROFILE, home.sessions)]
    found += [(name, profiles / name / home.sessions.name) for name in names]
    return [(name, folder) for name, folder in found if folder.is_dir()]


def _files(folder: Path) -> list[Path]:
    """Return the documents by name; names too long for the column are left out."""
    files = (path for path in folder.glob("*.json") if len(path.name) <= 255)
    return sorted(path for path in files if path.is_file())


def _read(path: Path) -> tuple[bytes, datetime]:
    if path.stat().st_size > transcripts.MAX_BYTES:
        raise InvalidArgument(f"it has more than {transcripts.MAX_BYTES >> 20} MiB")
    return path.read_bytes(), datetime.fromtimestamp(path.stat().st_mtime, UTC)
