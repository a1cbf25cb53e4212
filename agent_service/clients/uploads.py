"""Files of a session's messages, in its sandbox: put there when the sandbox is next used."""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

import grpc.aio
from msgspec import Struct

from agent_service.clients.files import uploaded
from agent_service.clients.leases import HeldSandbox, Supplies, is_gone
from agent_service.records.turn_state import LiveTurn
from agent_service.storage import uploads
from agent_service.storage.uploads import PlacedFile
from hermes.common.v1.content_pb2 import MessageFile
from hermes.executor.v1 import file_pb2
from hermes.executor.v1.file_pb2_grpc import FileServiceStub
from services.clock import SystemClock
from services.database import Database
from services.errors import Reason, message_of, reason_of
from services.home.message_files import Attachment, message_file

_NO_PLACE = frozenset({Reason.PATH_INVALID, Reason.LIMIT_EXCEEDED})

_log = logging.getLogger(__name__)


class SandboxUploads:
    """Puts each file into each workspace once, so that changed or removed files stay so."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def bring(self, turn: LiveTurn, held: HeldSandbox) -> str:
        if held.has_uploads_of == turn.id:
            return ""
        async with held.supplying:
            place = held.binding.workspace_id or held.binding.sandbox_id
            session_id = turn.session_id
            missing = await self._database.read(
                lambda conn: uploads.missing_in(conn, session_id, place)
            )
            told: list[str] = []
            for file in missing:
                try:
                    await self._put(held, file)
                except grpc.aio.AioRpcError as error:
                    if is_gone(error):
                        return ""  # the next user of the sandbox claims another
                    why = message_of(error)
                    _log.warning("a file of a message is not put into a sandbox: %s", why)
                    told.append(f"{file.path} could not be put into the sandbox: {why}.")
                    if reason_of(error) not in _NO_PLACE:
                        continue  # the next turn tries again
                await self._database.write(
                    lambda conn, file=file: uploads.note_placed(conn, session_id, file.path, place)
                )
            held.has_uploads_of = turn.id
        return " ".join(told)

    async def _put(self, held: HeldSandbox, file: PlacedFile) -> None:
        data = await self._database.read(lambda conn: uploads.read(conn, file.sha256))
        if data is None:
            return
        header = file_pb2.UploadFileRequest.Header(
            path=file.path, length_bytes=len(data), sha256=bytes.fromhex(file.sha256)
        )
        stub = FileServiceStub(held.channel)
        await held.ask(header, lambda: stub.UploadFile(uploaded(header, data)))


class StoredFiles(Struct, frozen=True):
    """Stores files for turns that this agent asks for itself, as UploadService does."""

    database: Database

    async def add(self, path: Path) -> MessageFile:
        data = await asyncio.to_thread(path.read_bytes)
        file = await asyncio.to_thread(message_file, Attachment(path.name, data))
        now = SystemClock().now()
        sha256 = file.sha256.hex()
        await self.database.write(
            lambda conn: uploads.touch(conn, sha256, now) or uploads.put(conn, sha256, data, now)
        )
        return file


class AllSupplies(Struct, frozen=True):
    """Several supplies, one after the other."""

    supplies: Sequence[Supplies]

    async def bring(self, turn: LiveTurn, held: HeldSandbox) -> str:
        return " ".join(filter(None, [await each.bring(turn, held) for each in self.supplies]))
