"""Files of a session's loaded skills, in its sandbox.

They are put there when the sandbox is next used, because a session that only reads skills needs
none. Isolated sandboxes have a folder of their own for them; others use the workspace.
"""

import asyncio
import hashlib
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TypeAlias

import grpc.aio

from agent_service.clients.files import is_missing, uploaded
from agent_service.clients.leases import HeldSandbox, Supply, is_gone
from agent_service.profiles.skills.document import BadSkill
from agent_service.profiles.skills.files import FileFact, FileRefused
from agent_service.profiles.skills.shelf import LOADED, PLACE, ProfileSkills, SkillShelves
from agent_service.records.sandbox import NO_ISOLATION
from agent_service.records.turn_state import LiveTurn
from agent_service.storage import sessions
from hermes.executor.v1 import file_pb2
from hermes.executor.v1.file_pb2_grpc import FileServiceStub
from services.database import Database
from services.errors import Reason, message_of, reason_of
from services.lifecycle import all_of

IN_WORKSPACE = "/workspace/.skills"
_SHOWN = "~/.skills"
"""The path for commands: HOME is always the workspace, which is not always /workspace."""
_NO_PLACE = frozenset({Reason.PATH_INVALID, Reason.LIMIT_EXCEEDED, Reason.NOT_FOUND})
_READ, _RUN = 0o444, 0o555
_AT_ONCE = 8
"""Files of a skill that are on their way together."""

Edition: TypeAlias = Mapping[str, FileFact]

_log = logging.getLogger(__name__)


class SandboxSkills:
    """Puts skills into sandboxes, and updates what has changed."""

    def __init__(self, shelves: SkillShelves, database: Database) -> None:
        self._shelves = shelves
        self._database = database

    async def bring(self, turn: LiveTurn, held: HeldSandbox) -> str:
        folders: Sequence[str] | None = await self._database.read(
            lambda conn: sessions.get_state(conn, turn.session_id, LOADED)
        )
        if not folders:
            return ""
        skills = self._shelves.for_profile(turn.profile)
        async with held.supplying:
            try:
                editions = await skills.editions(folders)
                told = [
                    await self._put(skills, held, (folder, edition))
                    for folder, edition in editions.items()
                    if not await self._is_there(held, folder, edition)
                ]
            except (BadSkill, FileRefused) as error:
                _log.warning("skills are not put into the sandbox: %s", error)
                return ""
        return " ".join(filter(None, told))

    async def _is_there(self, held: HeldSandbox, folder: str, edition: Edition) -> bool:
        """Return whether the sandbox has this edition as it was put there.

        A command can change its copy although the files are read-only.
        """
        copy = held.supplies.get(folder)
        if copy is None or copy.edition != edition:
            return False
        now = await _listed(held, copy.path, edition) if copy.path else None
        return now is None or copy.listed is None or copy.listed <= now

    async def _put(
        self, skills: ProfileSkills, held: HeldSandbox, edition: tuple[str, Edition]
    ) -> str:
        folder, facts = edition
        contents = await skills.contents(folder, facts)
        name = folder.rpartition("/")[2]
        # Without isolation, nothing is written outside the workspace.
        has_place = held.place.isolation != NO_ISOLATION
        places = (
            ((PLACE, PLACE), (IN_WORKSPACE, _SHOWN)) if has_place else ((IN_WORKSPACE, _SHOWN),)
        )
        why = ""
        for place, shown in places:
            try:
                await self._upload(held, f"{place}/{name}", contents)
            except grpc.aio.AioRpcError as error:
                if is_gone(error) and not is_missing(error):
                    return ""  # the next user of the sandbox claims another
                why = message_of(error)
                if reason_of(error) not in _NO_PLACE:
                    break
            else:
                path = f"{place}/{name}"
                held.supplies[folder] = Supply(facts, path, await _listed(held, path, facts))
                return (
                    ""
                    if place == PLACE
                    else f"The files of the skill {name} are in {shown}/{name}."
                )
        _log.warning("the skill %s is not put into a sandbox: %s", name, why)
        held.supplies[folder] = Supply(facts)
        return f"The files of the skill {name} could not be put into the sandbox: {why}."

    async def _upload(self, held: HeldSandbox, path: str, contents: Mapping[str, bytes]) -> None:
        stub = FileServiceStub(held.channel)
        remove = file_pb2.RemovePathRequest(path=path, recursive=True)
        slots = asyncio.Semaphore(_AT_ONCE)

        async def put(name: str, content: bytes) -> None:
            header = file_pb2.UploadFileRequest.Header(
                path=f"{path}/{name}",
                length_bytes=len(content),
                sha256=hashlib.sha256(content).digest(),
                mode=_RUN if content.startswith(b"#!") else _READ,
            )
            async with slots:
                await held.ask(header, lambda: stub.UploadFile(uploaded(header, content)))

        try:
            await held.ask(remove, lambda: stub.RemovePath(remove))
        except grpc.aio.AioRpcError as error:
            if not is_missing(error):
                raise
        try:
            await all_of(put(*file) for file in contents.items())
        except grpc.aio.AioRpcError:
            with suppress(grpc.aio.AioRpcError):  # half a skill would fill the place of others
                await held.ask(remove, lambda: stub.RemovePath(remove))
            raise


async def _listed(held: HeldSandbox, path: str, edition: Edition) -> frozenset[bytes] | None:
    """Return the files of a copy with sizes, rights and times; None if unknown."""
    stub = FileServiceStub(held.channel)

    async def entries(folder: str) -> list[bytes]:
        request = file_pb2.ListDirectoryRequest(path=f"{path}/{folder}".rstrip("/"))
        answer = await held.ask(request, lambda: stub.ListDirectory(request))
        files = [each for each in answer.entries if each.kind == file_pb2.FILE_KIND_FILE]
        return [folder.encode() + each.SerializeToString() for each in files]

    folders = {file.rpartition("/")[0] for file in edition}
    try:
        found = await all_of(map(entries, folders))
    except grpc.aio.AioRpcError as error:
        return frozenset() if is_missing(error) else None
    return frozenset(each for entries in found for each in entries)
