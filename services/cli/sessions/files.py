"""Finds sessions, and exports and imports them as JSON."""

import asyncio
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import grpc
import grpc.aio

from hermes.agent.v1 import session_change_pb2 as change_pb
from hermes.agent.v1 import session_pb2 as pb
from hermes.agent.v1.session_pb2_grpc import SessionServiceStub
from services.amounts import plural
from services.cli.command import JSON_LIST, Context, action, arg, flag, pages
from services.cli.console import complain
from services.cli.failures import explain
from services.errors import InvalidArgument, NotFound
from services.home.paths import replace_file
from services.rpc.streams import open_stream

PIECE_BYTES = 256 * 1024
PAGE = 1000


async def find(context: Context) -> pb.Session:
    """Return the session of an id, or the latest of a title; raises NotFound."""
    stub, named = context.stub(SessionServiceStub), context.given.session
    request = context.request(pb.GetSessionRequest, session_id=named)
    try:
        return (await stub.GetSession(request)).session
    except grpc.aio.AioRpcError as error:
        if error.code() is not grpc.StatusCode.NOT_FOUND:
            raise
    titled = pb.ListSessionsRequest(profile=context.profile, page_size=1, title=named)
    found = (await stub.ListSessions(titled)).sessions
    if not found:
        raise NotFound(f"there is no session {named!r}; see hermes sessions list")
    return found[0]


async def _export(context: Context) -> None:
    """Export sessions as JSON, to standard output or into a folder."""
    if context.given.all == bool(context.given.session):
        raise InvalidArgument("give a session or --all")
    if context.given.all and context.given.to is None:
        raise InvalidArgument("--all needs --to FOLDER")
    ids = await _all(context) if context.given.all else [(await find(context)).session_id]
    if context.given.to is None:
        async for piece in _pieces(context, ids[0]):
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
        return
    await asyncio.to_thread(context.given.to.mkdir, parents=True, exist_ok=True)
    files: list[str] = []
    for session_id in ids:
        pieces = [piece async for piece in _pieces(context, session_id)]
        file = context.given.to / f"{session_id}.json"
        await asyncio.to_thread(replace_file, file, b"".join(pieces), 0o600)
        files.append(str(file))
    context.print_value(files, f"exported {plural(len(files), 'session')} to {context.given.to}")


async def _pieces(context: Context, session_id: str) -> AsyncGenerator[bytes]:
    request = change_pb.ExportSessionRequest(session_id=session_id, profile=context.profile)
    stub = context.stub(SessionServiceStub)
    async with open_stream(stub.ExportSession(request)) as call:
        async for answer in call:
            yield answer.data


async def _all(context: Context) -> list[str]:
    request = pb.ListSessionsRequest(profile=context.profile, page_size=PAGE)
    listing = pages(context.stub(SessionServiceStub).ListSessions, request)
    each = [session async for page in listing for session in page.sessions]
    return [session.session_id for session in each if session.message_count]  # others are undone


async def _import(context: Context) -> int:
    """Import exported sessions; sessions that exist already stay as they are."""
    files = [file for path in context.given.paths for file in await asyncio.to_thread(_in, path)]
    stub = context.stub(SessionServiceStub)
    taken: list[change_pb.ImportSessionResponse] = []
    for file in files:
        data = await asyncio.to_thread(file.read_bytes)
        try:
            taken.append(await stub.ImportSession(_document(context.profile, file.stem, data)))
        except grpc.aio.AioRpcError as error:
            complain(f"{file}: {explain(error)}")
    new = sum(one.imported for one in taken)
    text = f"imported {plural(new, 'session')}; {len(taken) - new} existed already"
    context.print_value(taken, text)
    return int(len(taken) < len(files))


async def _document(
    profile: str, name: str, data: bytes
) -> AsyncGenerator[change_pb.ImportSessionRequest]:
    for at in range(0, len(data) or 1, PIECE_BYTES):
        piece = data[at : at + PIECE_BYTES]
        yield change_pb.ImportSessionRequest(profile=profile, session_id=name, data=piece)


def _in(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(path.glob("*.json"))
    if not path.is_file():
        raise InvalidArgument(f"{path} does not exist")
    return [path]


ACTIONS = (
    action(
        _export,
        arg("SESSION?", "id or title of the session"),
        flag("--all", "export every session; needs --to"),
        arg("--to FOLDER", "write one file a session into this folder", Path),
        flag("--json", "with --to: print a JSON list of the files"),
    ),
    action(_import, arg("FILE+", "JSON files, or folders of them", Path, field="paths"), JSON_LIST),
)
