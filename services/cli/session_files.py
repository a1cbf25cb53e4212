"""Writes conversations as JSON documents and takes them back, for `hermes sessions`."""

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import grpc.aio

from hermes.agent.v1 import session_change_pb2, session_pb2
from services.cli.arguments import Actions
from services.cli.console import complain, print_json, say
from services.cli.failures import explain
from services.cli.session_desk import Action, Desk
from services.errors import InvalidArgument
from services.streams import open_stream

PIECE_BYTES = 256 * 1024
_PAGE = 1000


def add_arguments(actions: Actions) -> None:
    """The options of the actions that write and read documents."""
    export = actions.add("export", "write a session as JSON, to standard output or into a folder")
    export.add_argument("session", metavar="SESSION", nargs="?", help="its id or title")
    export.add_argument("--all", action="store_true", help="every session, with --to")
    export.add_argument("--to", type=Path, metavar="FOLDER", help="a file for each, by its id")
    export.add_argument("--json", action="store_true", help="with --to: one JSON list of the files")
    taking = actions.add("import", "take sessions from such files, each once")
    taking.add_argument("paths", type=Path, nargs="+", metavar="FILE", help="files or folders")
    taking.add_argument("--json", action="store_true", help="one JSON list")


async def _export(desk: Desk) -> int:
    given = desk.arguments
    if given.all == bool(given.session):
        raise InvalidArgument("name a session, or say --all")
    if given.to is None:
        if given.all:
            raise InvalidArgument("--all goes with --to FOLDER")
        async for piece in _pieces(desk, (await desk.find(given.session)).session_id):
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
        return 0
    names = await _all(desk) if given.all else [(await desk.find(given.session)).session_id]
    await asyncio.to_thread(given.to.mkdir, parents=True, exist_ok=True)
    files = [await _write(desk, session_id, given.to) for session_id in names]
    if given.json:
        print_json([str(file) for file in files])
    else:
        say(f"{len(files)} sessions are in {given.to}")
    return 0


async def _write(desk: Desk, session_id: str, folder: Path) -> Path:
    file = folder / f"{session_id}.json"
    begun = file.with_suffix(".json.part")
    data = b"".join([piece async for piece in _pieces(desk, session_id)])
    # As a whole or not at all, and for nobody else to read.
    await asyncio.to_thread(begun.touch, 0o600)
    await asyncio.to_thread(begun.write_bytes, data)
    await asyncio.to_thread(begun.replace, file)
    return file


async def _pieces(desk: Desk, session_id: str) -> AsyncIterator[bytes]:
    request = session_change_pb2.ExportSessionRequest(session_id=session_id, profile=desk.profile)
    async with open_stream(desk.stub.ExportSession(request)) as call:
        async for answer in call:
            yield answer.data


async def _all(desk: Desk) -> list[str]:
    found: list[str] = []
    token = ""
    while True:
        request = session_pb2.ListSessionsRequest(
            profile=desk.profile, page_size=_PAGE, page_token=token
        )
        page = await desk.stub.ListSessions(request)
        found += [session.session_id for session in page.sessions]
        token = page.next_page_token
        if not token:
            return found


async def _import(desk: Desk) -> int:
    files = [file for path in desk.arguments.paths for file in await asyncio.to_thread(_in, path)]
    taken: list[session_change_pb2.ImportSessionResponse] = []
    failed = 0
    for file in files:
        data = await asyncio.to_thread(file.read_bytes)
        try:
            taken.append(await desk.stub.ImportSession(_document(desk, file.stem, data)))
        except grpc.aio.AioRpcError as error:
            failed += 1
            complain(f"{file}: {explain(error)}")
    if desk.arguments.json:
        print_json(
            [
                {
                    "session_id": one.session_id,
                    "imported": one.imported,
                    "message_count": one.message_count,
                }
                for one in taken
            ]
        )
    else:
        new = sum(one.imported for one in taken)
        say(f"{new} sessions are taken, {len(taken) - new} were there already")
    return 1 if failed else 0


async def _document(
    desk: Desk, name: str, data: bytes
) -> AsyncIterator[session_change_pb2.ImportSessionRequest]:
    for at in range(0, len(data) or 1, PIECE_BYTES):
        yield session_change_pb2.ImportSessionRequest(
            profile=desk.profile, session_id=name, data=data[at : at + PIECE_BYTES]
        )


def _in(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(path.glob("*.json"))
    if not path.is_file():
        raise InvalidArgument(f"there is no file {path}")
    return [path]


ACTIONS: Mapping[str, Action] = {"export": _export, "import": _import}
