"""A socket on this host that is an engine's socket on another, through one ssh."""

import asyncio
import contextlib
import shutil
import tempfile
from asyncio.subprocess import DEVNULL, Process
from pathlib import Path
from urllib.parse import urlsplit

_ENGINE_SOCKET = "/var/run/docker.sock"
_POLL_S = 0.05
_OPTIONS = (
    "BatchMode=yes",
    "ExitOnForwardFailure=yes",
    "LogLevel=ERROR",
    "ServerAliveInterval=15",
    "StreamLocalBindUnlink=yes",
)


class EngineTunnel:
    """Keeps one ssh running, with the user's own configuration, keys and known hosts."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._socket = parts.path.rstrip("/") or _ENGINE_SOCKET
        self._port = parts.port
        self._destination = parts.netloc.removesuffix(f":{parts.port}")
        self._folder: Path | None = None
        self._process: Process | None = None
        self._opening = asyncio.Lock()

    async def open(self) -> str:
        """Return the path of the local socket; OSError with ssh's message if it cannot connect."""
        async with self._opening:
            if self._folder is None:
                self._folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="hermes-"))
            local = self._folder / "engine.sock"
            if self._process is None or self._process.returncode is not None:
                self._process = await self._start(local, self._folder / "ssh.log")
            return str(local)

    async def _start(self, local: Path, log: Path) -> Process:
        port = ["-p", str(self._port)] if self._port else []
        options = [part for option in _OPTIONS for part in ("-o", option)]
        argv = ("ssh", "-N", "-T", "-E", str(log), *options, *port)
        argv += ("-L", f"{local}:{self._socket}", "--", self._destination)
        try:
            process = await asyncio.create_subprocess_exec(
                *argv, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL
            )
        except FileNotFoundError:
            raise OSError("there is no program ssh: install openssh-client") from None
        try:
            while process.returncode is None:
                with contextlib.suppress(FileNotFoundError, ConnectionRefusedError):
                    _, writer = await asyncio.open_unix_connection(local)
                    writer.close()
                    return process
                await asyncio.sleep(_POLL_S)
        except BaseException:
            await _end(process)
            raise
        raise OSError(f"ssh: {(await asyncio.to_thread(log.read_text)).strip()}")

    async def close(self) -> None:
        if self._process is not None:
            await _end(self._process)
        if self._folder is not None:
            await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)


async def _end(process: Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    await process.wait()
