"""Files of messages in the database: uploaded once by digest, and kept while a session has them."""

import logging
import re
import unicodedata
from collections.abc import Container, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import PurePosixPath

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import Connection, bindparam

from agent_service.records.requests import FileKind, MessageFile, TurnRequest
from agent_service.storage.schema import session_file, upload
from services.clock import Clock
from services.database import Database, Prepared, insert_ignore
from services.errors import DatabaseUnavailable, FailedPrecondition

FOLDER = "uploads"
EVERY_S = 3600.0
KEEP_UNUSED = timedelta(days=30)
"""How long a file waits for its message, which may be that of a batch's last item."""

_MAX_NAME_CHARS = 80
_UNSAFE = re.compile(r"[^\w.,()+@ -]")
_NAMES = {
    FileKind.IMAGE: "picture.jpg",
    FileKind.VOICE: "voice.ogg",
    FileKind.AUDIO: "audio.mp3",
    FileKind.VIDEO: "video.mp4",
    FileKind.DOCUMENT: "file",
}

_log = logging.getLogger(__name__)

_MISSING = Prepared(
    sa.select(session_file)
    .where(
        session_file.c.session_id == bindparam("of_session"),
        session_file.c.workspace_id != bindparam("place"),
    )
    .order_by(session_file.c.path)
)


class PlacedFile(Struct, frozen=True):
    """A file of a session."""

    path: str
    sha256: str


def touch(conn: Connection, sha256: str, now: datetime) -> bool:
    """Keep an uploaded file for longer; return whether there is one."""
    its_row = sa.update(upload).where(upload.c.sha256 == sha256)
    return bool(conn.execute(its_row.values(uploaded_at=now)).rowcount)


def put(conn: Connection, sha256: str, data: bytes, now: datetime) -> None:
    """Store a file; an existing one stays as it is."""
    row = {"sha256": sha256, "data": data, "length_bytes": len(data), "uploaded_at": now}
    conn.execute(insert_ignore(upload).values(row))


def keep(conn: Connection, data: bytes, file: PlacedFile, session_id: str, now: datetime) -> None:
    """Store a file of a session, whose path names its contents."""
    put(conn, file.sha256, data, now)
    row = {"session_id": session_id, "path": file.path, "sha256": file.sha256}
    conn.execute(insert_ignore(session_file).values(row))


def read(conn: Connection, sha256: str) -> bytes | None:
    """Return a file's contents, or None."""
    query = sa.select(upload.c.data).where(upload.c.sha256 == sha256)
    return conn.execute(query).scalar_one_or_none()


def read_all(conn: Connection, digests: Sequence[str]) -> Mapping[str, bytes]:
    """Return the contents of the files that there are."""
    query = sa.select(upload.c.sha256, upload.c.data).where(upload.c.sha256.in_(digests))
    return {row.sha256: row.data for row in conn.execute(query)}


def with_paths(conn: Connection, request: TurnRequest) -> TurnRequest:
    """Return a request whose files have free paths; FailedPrecondition if one is not uploaded."""
    if not request.all_files:
        return request
    its = session_file.c.session_id == request.session_id
    taken = set(conn.scalars(sa.select(session_file.c.path).where(its)))

    def with_path(file: MessageFile) -> MessageFile:
        query = sa.select(upload.c.length_bytes).where(upload.c.sha256 == file.sha256)
        if conn.execute(query).scalar_one_or_none() != file.length_bytes:
            raise FailedPrecondition(f"the file {file.name or file.kind} was not uploaded")
        path = path_of(file, taken)
        taken.add(path)
        return replace(file, path=path)

    request = replace(request, files=tuple(map(with_path, request.files)))
    if (script := request.script) is None:
        return request
    return replace(request, script=replace(script, files=tuple(map(with_path, script.files))))


def path_of(file: MessageFile, taken: Container[str]) -> str:
    """Return a safe path for a file that is not `taken`, with as much of its name as possible."""
    name = unicodedata.normalize("NFKC", file.name).replace("\\", "/")
    name = _UNSAFE.sub("_", PurePosixPath(name).name).strip(" .-") or _NAMES[file.kind]
    stem, dot, suffix = name.rpartition(".")
    if not dot or not stem or len(suffix) > 10:
        stem, suffix = name, ""
    suffix = f".{suffix}" if suffix else ""
    stem = stem[: _MAX_NAME_CHARS - len(suffix)]
    path, number = f"{FOLDER}/{stem}{suffix}", 1
    while path in taken:
        number += 1
        path = f"{FOLDER}/{stem}-{number}{suffix}"
    return path


def attach(conn: Connection, request: TurnRequest) -> None:
    """Give a new turn's files to its session."""
    rows = [
        {"session_id": request.session_id, "path": file.path, "sha256": file.sha256}
        for file in request.all_files
    ]
    if rows:
        conn.execute(sa.insert(session_file), rows)


def missing_in(conn: Connection, session_id: str, workspace_id: str) -> Sequence[PlacedFile]:
    """Return the session's files that were not put into a workspace."""
    rows = _MISSING.rows(conn, {"of_session": session_id, "place": workspace_id})
    return [PlacedFile(row.path, row.sha256) for row in rows]


def note_placed(conn: Connection, session_id: str, path: str, workspace_id: str) -> None:
    """Note that a file was put into a workspace, or cannot be."""
    its_row = session_file.c.session_id == session_id, session_file.c.path == path
    conn.execute(sa.update(session_file).where(*its_row).values(workspace_id=workspace_id))


def forget(conn: Connection, before: datetime) -> int:
    """Delete files that were uploaded before a time and that no session has."""
    is_used = sa.exists().where(session_file.c.sha256 == upload.c.sha256)
    return conn.execute(sa.delete(upload).where(upload.c.uploaded_at < before, ~is_used)).rowcount


class UploadUpkeep(Struct, frozen=True):
    """Deletes files that no session has any more."""

    database: Database
    clock: Clock

    async def run(self) -> None:
        """Delete until cancelled."""
        while True:
            await self.clock.sleep(EVERY_S)
            before = self.clock.now() - KEEP_UNUSED
            try:
                await self.database.write(lambda conn, before=before: forget(conn, before))
            except DatabaseUnavailable as error:
                _log.warning("old uploads are deleted later: %s", error)
