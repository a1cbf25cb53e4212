"""Skills in remote git repositories, read without a checkout and within limits."""

import asyncio
import os
import re
import shutil
import signal
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from msgspec import Struct

from agent_service.profiles.skills.hub.package import (
    MAX_OFFERS,
    Offer,
    Package,
    offer_of,
    packaged,
    partition,
)
from agent_service.profiles.skills.hub.source import HubFailed, HubRefused, Source
from agent_service.profiles.skills.names import DOCUMENT, MAX_SUPPORT_BYTES, skill_folders
from services.lifecycle import unbroken

FETCH_S = 90.0
READ_S = 30.0
MAX_PACK_BYTES = 128 * 1024 * 1024
MAX_LISTING_BYTES = 8 * 1024 * 1024
OLDEST = (2, 37)
"""The first git version that accepts addresses along with a URL."""
_PATH = "/usr/local/bin:/usr/bin:/bin:/opt/homebrew/bin"
_MEMORY_KIB = 2 * 1024 * 1024
_ANSWER, _PROBLEM = "answer", "problem"
"""The files of the repository's folder with the output of git, which the limits cover."""
_LIMITED = (
    'ulimit -c 0; ulimit -f "$1"; ulimit -t 120; '
    f'ulimit -v {_MEMORY_KIB} 2>/dev/null || :; shift; exec "$@" >{_ANSWER} 2>{_PROBLEM}'
)
_SETTINGS = (
    *("core.hooksPath=/dev/null", "core.fsmonitor=false", "core.symlinks=false"),
    *("core.bigFileThreshold=8m", "core.packedGitLimit=256m", "core.packedGitWindowSize=32m"),
    *("credential.helper=", "http.followRedirects=false", "http.proxy=", "http.lowSpeedLimit=1000"),
    *("http.lowSpeedTime=20", "http.emptyAuth=false", "http.cookieFile=", "gc.auto=0"),
    *("protocol.version=2", "transfer.fsckObjects=true", "transfer.bundleURI=false"),
    *("fetch.recurseSubmodules=false", "submodule.recurse=false", "maintenance.auto=false"),
    *("pack.threads=1", "advice.detachedHead=false", "fetch.unpackLimit=1"),
)


class Git:
    """A temporary bare repository."""

    def __init__(self, folder: Path, program: str, pack_bytes: int) -> None:
        self._folder = folder
        self._program = program
        self._pack_bytes = pack_bytes

    async def check_version(self) -> None:
        """Raise HubRefused if git is too old to pin addresses."""
        said = (await self._run(READ_S, "version")).decode(errors="replace")
        match = re.search(r"(\d+)\.(\d+)", said)
        if match is None or (int(match[1]), int(match[2])) < OLDEST:
            oldest = ".".join(map(str, OLDEST))
            raise HubRefused(f"git is older than {oldest} where the agent runs, and not used")

    async def fetch(
        self, url: str, ref: str, addresses: Sequence[str], *, limit_s: float = FETCH_S
    ) -> str:
        """Fetch one commit without its history, and return its id.

        `addresses` are `host:port:address` of a URL; git connects to no others.
        """
        protocol = "file" if url.startswith("/") else url.partition(":")[0]
        settings = [f"http.curloptResolve={each}" for each in addresses]
        await self._run(READ_S, "init", "--quiet", "--bare", "--template=", str(self._folder))
        fetched = f"+{ref or 'HEAD'}:refs/hermes/found"
        await self._run(
            limit_s,
            *("fetch", "--quiet", "--depth=1", "--no-tags", "--no-write-fetch-head"),
            *("--no-recurse-submodules", f"file://{url}" if protocol == "file" else url, fetched),
            protocol=protocol,
            settings=settings,
        )
        found = await self._run(READ_S, "rev-parse", "--verify", "refs/hermes/found^{commit}")
        return found.decode().strip()

    async def listing(self, folder: str) -> bytes:
        """Return the recursive `ls-tree` of a folder; HubRefused if it is too long."""
        where = ["--", f"{folder}/"] if folder else []
        return await self._run(
            READ_S, "ls-tree", "-r", "-z", "-l", "--full-tree", "refs/hermes/found", *where
        )

    async def blobs(self, ids: Sequence[str], total_bytes: int) -> Sequence[bytes]:
        said = "".join(f"{each}\n" for each in ids).encode()
        most = total_bytes + 128 * (len(ids) + 1)
        answer = await self._run(READ_S, "cat-file", "--batch", said=said, most=most)
        found: list[bytes] = []
        at = 0
        for each in ids:
            end = answer.find(b"\n", at)
            words = answer[at:end].split()
            if len(words) != 3 or words[0].decode() != each or words[1] != b"blob":
                raise HubFailed("the repository is damaged")
            size = int(words[2])
            found.append(answer[end + 1 : end + 1 + size])
            at = end + 2 + size
        return found

    async def _run(
        self,
        limit_s: float,
        *arguments: str,
        said: bytes = b"",
        most: int = MAX_LISTING_BYTES,
        protocol: str = "",
        settings: Sequence[str] = (),
    ) -> bytes:
        options = [word for each in (*_SETTINGS, *settings) for word in ("-c", each)]
        most_bytes = self._pack_bytes if protocol else most
        process = await asyncio.create_subprocess_exec(
            *("/bin/sh", "-c", _LIMITED, "sh", str(most_bytes // 512 + 1)),
            *(self._program, *options, *arguments),
            stdin=asyncio.subprocess.PIPE,
            env=_environment(self._folder, protocol),
            cwd=self._folder,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(limit_s):
                await process.communicate(said)
        except TimeoutError:
            raise HubFailed(f"git took longer than {limit_s:g} s") from None
        finally:
            await unbroken(_end(process))
        answer = await asyncio.to_thread(_read, self._folder / _ANSWER, most + 1)
        if len(answer) > most:
            raise HubRefused(f"the repository lists more than {most:,} bytes; name a #FOLDER of it")
        if process.returncode:
            problem = await asyncio.to_thread(_read, self._folder / _PROBLEM, 64 * 1024)
            raise HubFailed(f"git says: {_first_line(problem)}")
        return answer


@asynccontextmanager
async def repository(pack_bytes: int = MAX_PACK_BYTES) -> AsyncGenerator[Git]:
    """Create a temporary repository to fetch into."""
    program = await asyncio.to_thread(shutil.which, "git", os.F_OK | os.X_OK, _PATH)
    if program is None:
        raise HubRefused("git is not installed where the agent runs; sources of git need it")
    folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="hermes-hub-"))
    try:
        git = Git(folder, program, pack_bytes)
        await git.check_version()
        yield git
    finally:
        await unbroken(asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True))


def _environment(folder: Path, protocol: str) -> dict[str, str]:
    """Return the whole environment of git, which hides the machine's own configuration."""
    return {
        "PATH": _PATH,
        "HOME": str(folder),
        "LC_ALL": "C",
        "GIT_DIR": str(folder),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_SYSTEM": "/dev/null",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "/bin/false",
        "SSH_ASKPASS": "/bin/false",
        "GIT_ALLOW_PROTOCOL": protocol or "none",
        "GIT_PROTOCOL_FROM_USER": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_OPTIONAL_LOCKS": "0",
    }


def _read(path: Path, most_bytes: int) -> bytes:
    with path.open("rb") as stream:
        return stream.read(most_bytes)


async def _end(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def _first_line(problem: bytes) -> str:
    lines = problem.decode(errors="replace").splitlines()
    line = next((each for each in lines if each.startswith(("fatal:", "error:"))), "")
    shown = "".join(each for each in line or "it has failed" if each.isprintable())
    return shown.removeprefix("fatal: ").removeprefix("error: ")[:300]


_FILE_MODES = ("100644", "100755", "100664")


class _Entry(Struct, frozen=True):
    mode: str
    blob: str
    size_bytes: int


class Repository:
    """A repository at one commit."""

    def __init__(
        self, git: Git, source: Source, version: str, entries: Mapping[str, _Entry]
    ) -> None:
        self.source = source
        self.version = version
        self._git = git
        self._entries = entries

    async def offers(self) -> Sequence[Offer]:
        entries = self._entries
        folders = [""] if DOCUMENT in entries else skill_folders(entries, hidden=True)
        if len(folders) > MAX_OFFERS:
            raise HubRefused(f"it has more than {MAX_OFFERS:,} skills; name a #FOLDER of it")
        documents = [f"{each}/{DOCUMENT}" if each else DOCUMENT for each in folders]
        read = [
            (folder, path)
            for folder, path in zip(folders, documents, strict=True)
            if self._entries[path].mode in _FILE_MODES
            and self._entries[path].size_bytes <= MAX_SUPPORT_BYTES
        ]
        texts = await self._read([path for _, path in read])
        placed = [
            (self._placed(folder), text) for (folder, _), text in zip(read, texts, strict=True)
        ]
        return await asyncio.to_thread(_offers, placed)

    async def take(self, offer: Offer) -> Package:
        folder = offer.place.removeprefix(self.source.folder).strip("/")
        inside = f"{folder}/" if folder else ""
        entries = {
            path.removeprefix(inside): entry
            for path, entry in self._entries.items()
            if path.startswith(inside)
        }
        for path, entry in entries.items():
            if entry.mode not in _FILE_MODES:
                what = "a submodule" if entry.mode == "160000" else "a link"
                raise HubRefused(f"{offer.name} has {what}, {path!r}, which is not followed")
        sizes = {path: entry.size_bytes for path, entry in entries.items()}
        keep, left_out = partition(offer.name, sizes)
        texts = await self._read([inside + path for path in keep])
        name = offer.place.rpartition("/")[2]
        files = dict(zip(keep, texts, strict=True))
        return await asyncio.to_thread(packaged, name, files, left_out)

    def _placed(self, folder: str) -> str:
        return "/".join(part for part in (self.source.folder, folder) if part)

    async def _read(self, paths: Sequence[str]) -> Sequence[bytes]:
        entries = [self._entries[path] for path in paths]
        total = sum(entry.size_bytes for entry in entries)
        if total > 64 * 1024 * 1024:
            raise HubRefused(f"{self.source.text} is too large; name a #FOLDER of it")
        return await self._git.blobs([entry.blob for entry in entries], total) if entries else []


@asynccontextmanager
async def open_repository(
    source: Source, url: str, addresses: Sequence[str]
) -> AsyncGenerator[Repository]:
    """Fetch a repository from a URL, connecting only to the given addresses."""
    async with repository() as git:
        try:
            version = await git.fetch(url, source.ref, addresses)
        except HubFailed as error:
            raise HubFailed(f"{source.text} cannot be fetched: {error}") from None
        entries = _entries(await git.listing(source.folder), source)
        yield Repository(git, source, version, entries)


def _offers(placed: Sequence[tuple[str, bytes]]) -> Sequence[Offer]:
    found = [offer_of(place, text) for place, text in placed]
    return sorted(found, key=lambda each: (each.name, each.place))


def _entries(listing: bytes, source: Source) -> Mapping[str, _Entry]:
    inside = f"{source.folder}/" if source.folder else ""
    found: dict[str, _Entry] = {}
    for line in listing.split(b"\0"):
        head, tab, path = line.partition(b"\t")
        words = head.decode(errors="replace").split()
        if not tab or len(words) != 4:
            continue
        mode, _, blob, size = words
        place = path.decode(errors="replace").removeprefix(inside)
        found[place] = _Entry(mode, blob, int(size) if size.isdigit() else 0)
    if not found:
        where = f"no folder {source.folder!r}" if source.folder else "no files"
        raise HubRefused(f"{source.text} has {where}")
    return found
