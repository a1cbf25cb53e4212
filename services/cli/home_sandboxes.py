"""Takes the old workspaces of a home over, each into the workspace of a session."""

import asyncio
import hashlib
import json
import sys
import tempfile
from collections.abc import AsyncGenerator, Sequence
from typing import Any, BinaryIO

import grpc.aio
from google.protobuf.duration_pb2 import Duration
from msgspec import Struct

from hermes.agent.v1 import session_change_pb2, session_pb2
from hermes.agent.v1.session_pb2_grpc import SessionServiceStub
from hermes.executor.v1 import file_pb2, sandbox_pb2
from hermes.executor.v1.file_pb2_grpc import FileServiceStub
from hermes.executor.v1.sandbox_pb2_grpc import SandboxServiceStub
from services.channels import Channels
from services.cli import old_workspaces
from services.cli.connection import connected
from services.cli.console import complain, counted, print_json, printable, say
from services.cli.failures import explain
from services.cli.old_workspaces import PIECE_BYTES, Notes, OldWorkspace, TooLarge
from services.cli.standard_input import agreed
from services.clock import SystemClock
from services.config import Settings
from services.errors import HermesError, Reason, details_of, reason_of
from services.ids import new_id, new_session_id

COMMANDS = "hermes home import --sandboxes takes them over, hermes home import --no-sandboxes never"
DECLINED = "you are not asked again; hermes home import --sandboxes takes them all the same"
WAIT_S = 120


class Taken(Struct, frozen=True):
    """What became of an old workspace."""

    name: str
    session_id: str = ""
    """Whose workspace has its files; empty where it was not taken."""
    left_out: Sequence[str] = ()
    reason: str = ""
    """Why it was not taken."""


async def offer(settings: Settings, *, may_ask: bool) -> None:
    """Ask once whether the old workspaces of a home are taken over, or say how it is done.

    What goes wrong is told, and keeps nobody from what they are about to do.
    """
    try:
        await _offer(settings, may_ask=may_ask)
    except (HermesError, OSError) as error:
        complain(printable(f"old workspaces: {error}; {COMMANDS}"))
    except grpc.aio.AioRpcError as error:
        complain(printable(f"old workspaces: {explain(error)}; {COMMANDS}"))


async def _offer(settings: Settings, *, may_ask: bool) -> None:
    home = settings.home
    kept = await asyncio.to_thread(old_workspaces.notes, home)
    if kept.answer:
        return
    found = await asyncio.to_thread(old_workspaces.found, home)
    if not found:
        return
    what = f"{home.root / old_workspaces.FOLDER} has {counted(len(found), 'old workspace')}"
    if not may_ask:
        complain(f"{what}: {COMMANDS}")
        return
    is_wanted = await agreed(
        f"{what}. Take them over, each into the workspace of a session? "
        "They stay where they are, and you are not asked again.",
        COMMANDS,
    )
    if not is_wanted:
        await decline(settings)
        say(DECLINED)
        return
    for one in await take(settings):
        tell(one)


async def decline(settings: Settings) -> None:
    """Note that nobody is to be asked again."""
    kept = await asyncio.to_thread(old_workspaces.notes, settings.home)
    kept.answer = "no"
    await asyncio.to_thread(old_workspaces.note, settings.home, kept)


async def take(settings: Settings) -> Sequence[Taken]:
    """Take over what is not yet; again goes on where it was."""
    home = settings.home
    kept = await asyncio.to_thread(old_workspaces.notes, home)
    kept.answer = "yes"
    await asyncio.to_thread(old_workspaces.note, home, kept)
    left = await asyncio.to_thread(old_workspaces.left, home)
    if not left:
        return ()
    async with connected(settings, ("agent", "executor")) as channels:
        taking = _Taking(settings, channels, kept)
        return [await taking.take(one) for one in left]


def tell(one: Taken) -> None:
    """Say what became of one."""
    if one.reason:
        complain(printable(f"{one.name} is not taken over: {one.reason}"))
        return
    for line in one.left_out:
        complain(printable(f"left out: {line}"))
    say(
        printable(
            f"{one.name} is in /workspace/{one.name} of the session {one.session_id}: "
            f"hermes chat --resume {one.session_id}"
        )
    )


async def run(settings: Settings, *, as_json: bool) -> None:
    """Take them over because somebody has said so."""
    taken = await take(settings)
    if as_json:
        print_json(
            [
                {
                    "name": one.name,
                    "session_id": one.session_id or None,
                    "left_out": list(one.left_out),
                    "reason": one.reason or None,
                }
                for one in taken
            ]
        )
        return
    for one in taken:
        tell(one)
    if not taken:
        say("there are no old workspaces to be taken over")


def is_at_terminal() -> bool:
    """Whether a person can be asked."""
    return sys.stdin.isatty() and sys.stdout.isatty()


class _Taking:
    """Takes them one after another, and notes each."""

    def __init__(self, settings: Settings, channels: Channels, kept: Notes) -> None:
        self._home, self._profile = settings.home, settings.profile
        self._kept = kept
        self._sessions = SessionServiceStub(channels.to("agent"))
        self._channels = channels

    async def take(self, one: OldWorkspace) -> Taken:
        """Take one over."""
        try:
            one.name.encode()
            session_id = await self._session(one.name)
            left_out = await self._put(one, session_id)
        except UnicodeEncodeError:
            return Taken(one.name, reason="its name is not UTF-8")
        except (TooLarge, OSError, HermesError) as error:
            return Taken(one.name, reason=str(error))
        except grpc.aio.AioRpcError as error:
            return Taken(one.name, reason=explain(error))
        self._kept.taken[one.name] = session_id
        await self._note()
        return Taken(one.name, session_id, left_out)

    async def _note(self) -> None:
        await asyncio.to_thread(old_workspaces.note, self._home, self._kept)

    async def _session(self, name: str) -> str:
        """The session that has its files: the one of its name, or else one of its own."""
        session_id = self._kept.begun.get(name, "")
        if not session_id:
            session_id = name if await self._is_session(name) else _new_session()
            self._kept.begun[name] = session_id
            await self._note()
        if not await self._is_session(session_id):
            await self._sessions.ImportSession(self._document(session_id, name))
        return session_id

    async def _is_session(self, session_id: str) -> bool:
        request = session_pb2.GetSessionRequest(session_id=session_id, profile=self._profile)
        try:
            await self._sessions.GetSession(request)
        except grpc.aio.AioRpcError as error:
            if reason_of(error) in (Reason.NOT_FOUND, Reason.INVALID_ARGUMENT):
                return False
            raise
        return True

    async def _document(
        self, session_id: str, name: str
    ) -> AsyncGenerator[session_change_pb2.ImportSessionRequest]:
        told = [
            {"role": "user", "content": f"Old workspace {name}"},
            {"role": "assistant", "content": f"Its files are in /workspace/{name}."},
        ]
        text = json.dumps({"session_id": session_id, "messages": told}).encode()
        yield session_change_pb2.ImportSessionRequest(
            profile=self._profile, session_id=session_id, data=text
        )

    async def _put(self, one: OldWorkspace, session_id: str) -> Sequence[str]:
        sandboxes = SandboxServiceStub(self._channels.to("executor"))
        acquired = await sandboxes.AcquireSandbox(
            sandbox_pb2.AcquireSandboxRequest(
                request_id=new_id("req"),
                profile=self._profile,
                session_id=session_id,
                wait=Duration(seconds=WAIT_S),
            )
        )
        # The executor that owns the box may be another than the one that has answered.
        owner = acquired.endpoint
        channel = self._channels.at(owner) if owner else self._channels.to("executor")
        try:
            return await self._fill(one, acquired.lease, FileServiceStub(channel))
        finally:
            release = sandbox_pb2.ReleaseSandboxRequest(lease=acquired.lease, profile=self._profile)
            await SandboxServiceStub(channel).ReleaseSandbox(release)

    async def _fill(
        self, one: OldWorkspace, lease: sandbox_pb2.Lease, files: FileServiceStub
    ) -> Sequence[str]:
        """Put its files there, whole or not at all; what is there already was put before."""
        path = f"/workspace/{one.name}"
        named: dict[str, Any] = {"lease": lease, "profile": self._profile, "path": path}
        try:
            await files.StatPath(file_pb2.StatPathRequest(**named))
        except grpc.aio.AioRpcError as error:
            if details_of(error).metadata.get("missing") != "path":
                raise
        else:
            return ()
        with tempfile.TemporaryFile(dir=self._home.state) as archive:
            left_out = await asyncio.to_thread(old_workspaces.pack, one, archive)
            head = await asyncio.to_thread(_head, archive)
            header = file_pb2.UploadArchiveRequest.Header(**named, **head)
            await files.UploadArchive(_sent(header, archive))
        return left_out


async def _sent(
    header: file_pb2.UploadArchiveRequest.Header, archive: BinaryIO
) -> AsyncGenerator[file_pb2.UploadArchiveRequest]:
    yield file_pb2.UploadArchiveRequest(header=header)
    while piece := await asyncio.to_thread(archive.read, PIECE_BYTES):
        yield file_pb2.UploadArchiveRequest(chunk=piece)


def _head(archive: BinaryIO) -> dict[str, Any]:
    """Length and digest of an archive, which is then at its beginning."""
    digest, length = hashlib.sha256(), archive.tell()
    archive.seek(0)
    while piece := archive.read(1 << 20):
        digest.update(piece)
    archive.seek(0)
    return {"length_bytes": length, "sha256": digest.digest()}


def _new_session() -> str:
    return new_session_id(SystemClock().now().astimezone())
