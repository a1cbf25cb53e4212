"""Files of 100 MB that people send: read piece by piece, given up at the limit, never held."""

import asyncio
import base64
import hashlib
import os
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from aiohttp import web
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from pydantic import SecretStr

from gateway_service.errors import Refused
from gateway_service.messages import FileKind, RemoteFile
from gateway_service.platforms.http_api import HttpApi
from gateway_service.platforms.matrix.config import MatrixConfig
from gateway_service.platforms.matrix.platform import MatrixPlatform
from gateway_service.platforms.signal.config import SignalConfig
from gateway_service.platforms.signal.platform import SignalPlatform
from gateway_service.storage.received_files import receive
from tests.fakes.http_server import bind, serving
from tests.support.memory import Memory

PIECE, PIECES = bytes(range(255)) * 1_000, 400
SIZE = len(PIECE) * PIECES
KEY, IV = bytes(32), bytes(16)
FILE = RemoteFile(FileKind.DOCUMENT, "file")
MOST_MIB = 30
"""What one download takes, and the server beside it."""


def plain() -> Iterator[bytes]:
    for _ in range(PIECES):
        yield PIECE


def encoded() -> Iterator[bytes]:
    """As signal-cli answers."""
    yield b'{"jsonrpc": "2.0", "id": "1", "result": {"data": "'
    for piece in plain():
        yield base64.b64encode(piece)
    yield b'"}}'


def encrypted() -> Iterator[bytes]:
    """As a homeserver keeps what was sent to an encrypted room."""
    cipher = Cipher(AES(KEY), CTR(IV)).encryptor()
    for piece in plain():
        yield cipher.update(piece)


async def from_http(url: str, _folder: Path) -> AsyncGenerator[bytes]:
    """As all platforms over HTTP do."""
    async with HttpApi("telegram", f"{url}/file") as api:
        async for chunk in api.download(""):
            yield chunk


async def from_signal(url: str, _folder: Path) -> AsyncGenerator[bytes]:
    async with SignalPlatform(SignalConfig(account="+1", http_url=url)) as platform:
        async for chunk in platform.download(msgspec.structs.replace(FILE, id="+2/file")):
            yield chunk


async def from_matrix(url: str, folder: Path) -> AsyncGenerator[bytes]:
    digest = hashlib.sha256()
    for piece in encrypted():
        digest.update(piece)
    key, iv, told = (base64.urlsafe_b64encode(each).decode() for each in (KEY, IV, digest.digest()))
    keys = {"url": "mxc://x/file", "key": {"k": key}, "hashes": {"sha256": told}, "iv": iv}
    account = MatrixConfig(user_id="@a:x", token=SecretStr("t"), homeserver=url)
    platform = MatrixPlatform(account, folder)
    file = msgspec.structs.replace(FILE, id=msgspec.json.encode(keys).decode())
    async for chunk in platform.download(file):
        yield chunk


Take = Callable[[str, Path], AsyncGenerator[bytes]]
Pieces = Callable[[], Iterator[bytes]]
SOURCES: Mapping[str, tuple[Take, Pieces]] = {
    "http": (from_http, plain),
    "matrix": (from_matrix, encrypted),
    "signal": (from_signal, encoded),
}


@asynccontextmanager
async def store(pieces: Pieces) -> AsyncGenerator[str]:
    """A server that has one file."""

    async def serve(request: web.Request) -> web.StreamResponse:
        if request.can_read_body and b"listAccounts" in await request.read():
            return web.json_response({"error": {"code": -32601, "message": "unknown"}})
        response = web.StreamResponse()
        await response.prepare(request)
        for piece in pieces():
            await response.write(piece)
        return response

    listener, url = bind()
    async with serving(listener, serve):
        yield url


@pytest.mark.parametrize("name", SOURCES)
async def test_a_file_of_100_mb_takes_little_memory(name: str, tmp_path: Path) -> None:
    take, pieces = SOURCES[name]
    whole = hashlib.sha256()
    for piece in plain():
        whole.update(piece)
    async with store(pieces) as url:
        with pytest.raises(Refused, match="larger than 50 MB"):
            async with receive(tmp_path, take(url, tmp_path), 50_000_000):
                pass
        memory = await asyncio.to_thread(Memory, os.getpid())
        async with receive(tmp_path, take(url, tmp_path), SIZE) as found:
            assert await asyncio.to_thread(memory.grown_mib) < MOST_MIB
            assert (found.length_bytes, found.sha256) == (SIZE, whole.hexdigest())
            end = await asyncio.to_thread(found.read, SIZE - 10, 20)
            assert end == PIECE[-10:]
