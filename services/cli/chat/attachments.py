"""Files that go with a message: named as `@path`, as a pasted picture's path, or by an option."""

import asyncio
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from urllib.parse import unquote, urlsplit

import grpc.aio

from hermes.agent.v1.upload_pb2 import UploadFileRequest
from hermes.agent.v1.upload_pb2_grpc import UploadServiceStub
from hermes.common.v1.content_pb2 import MessageFile
from services.cli.chat.dialogue import Dialogue
from services.errors import HermesError, InvalidArgument, details_of
from services.home.media_types import media_type
from services.home.message_files import Attachment, message_file
from services.ids import new_id
from services.rpc.uploads import MAX_BYTES, upload_messages

MAX_LISTED = 500
"""How many files of a folder a message names."""
NOT_NEAR = "files can be sent only to an agent with a known address (services.agent.address)"

_MENTION = re.compile(r'(?<!\S)@(?:"(?P<quoted>[^"]+)"|(?P<plain>\S+))')
_LINES = re.compile(r"(?P<path>.+):(?P<first>\d+)(?:-(?P<last>\d+))?")
_PASTED = re.compile(
    r"""(?<!\S)(?:'(/[^']+)'|"(/[^"]+)"|((?:file://|~?/)(?:\\.|[^\s\\])+))(?!\S)"""
)


def read(path: Path) -> Attachment:
    """Read a file, or the names of a folder's files; InvalidArgument if that fails."""
    try:
        if path.is_dir():
            listed = "\n".join(islice(_files_below(path), MAX_LISTED)) or "(no files)"
            return Attachment(f"{path.resolve().name}.txt", listed.encode(errors="replace"))
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidArgument(f"{path} cannot be read: {error.strerror}") from None
    if not 1 <= len(data) <= MAX_BYTES:
        raise InvalidArgument(f"{path} must have 1 to {MAX_BYTES:,} bytes")
    return Attachment(path.name, data)


def read_picture(path: Path) -> Attachment:
    """Read a picture; InvalidArgument if it is none."""
    found = read(path)
    if not found.is_picture:
        raise InvalidArgument(f"{path} is not a picture (PNG, JPEG, GIF or WebP)")
    return found


def find(text: str) -> tuple[str, list[Attachment]]:
    """Return a message as it is sent, and the files that it names.

    InvalidArgument if a file is not there or cannot be read; what is like no path is left as it is.
    """
    if text.startswith("!"):
        return text, []
    found: list[Attachment] = []

    def pasted(match: re.Match[str]) -> str:
        path = _pasted_path(match)
        try:
            found.append(read_picture(path))
        except InvalidArgument:
            return match[0]
        return f"[{path.name}]"

    text = _PASTED.sub(pasted, text)
    if not text.startswith("/"):
        found += filter(None, map(_mentioned, _MENTION.finditer(text)))
    return text, found


def _mentioned(match: re.Match[str]) -> Attachment | None:
    name = match["quoted"] or match["plain"].rstrip(",;!?)")
    path = Path(name).expanduser()
    if path.exists():
        return read(path)
    lines = _LINES.fullmatch(name)
    if lines is None or not (path := Path(lines["path"]).expanduser()).is_file():
        if match["quoted"] or _is_like_path(lines["path"] if lines else name.rstrip(".")):
            raise InvalidArgument(f"there is no file {name}; if you mean none, write `@{name}`")
        return None
    first, last = int(lines["first"]), int(lines["last"] or lines["first"])
    kept = read(path).data.splitlines(keepends=True)[max(0, first - 1) : last]
    if not kept:
        raise InvalidArgument(f"{path} has no lines {first} to {last}")
    return Attachment(f"{path.stem}_{first}-{last}{path.suffix}", b"".join(kept))


def _is_like_path(name: str) -> bool:
    """Return whether a name is meant as a path, as opposed to a handle such as @ann or @a/b."""
    path = Path(name).expanduser()
    is_rooted = path.is_absolute() or name.startswith(("./", "../"))
    is_below = "/" in name and (path.parent.is_dir() or bool(path.suffix))
    return "@" not in name and (is_rooted or is_below or bool(media_type(name, "")))


def _pasted_path(match: re.Match[str]) -> Path:
    """Return the path that a terminal writes for a dropped file."""
    quoted, plain = match[1] or match[2], match[3]
    if quoted:
        return Path(quoted)
    if plain.startswith("file://"):
        return Path(unquote(urlsplit(plain).path))
    return Path(re.sub(r"\\(.)", r"\1", plain)).expanduser()


def _files_below(folder: Path) -> Iterator[str]:
    for each in sorted(folder.iterdir()):
        if each.is_dir() and not each.is_symlink() and not each.name.startswith("."):
            yield from (f"{each.name}/{name}" for name in _files_below(each))
        elif each.is_file():
            yield each.name


async def upload(agent: grpc.aio.Channel, files: Sequence[Attachment]) -> list[MessageFile]:
    """Give files to the agent."""
    stub, named = UploadServiceStub(agent), list(map(message_file, files))
    for file, name in zip(files, named, strict=True):
        header = UploadFileRequest.Header(length_bytes=name.length_bytes, sha256=name.sha256)
        await stub.UploadFile(upload_messages(UploadFileRequest, header, file.data))
    return named


class MessageSender:
    """Sends messages in their order, with the files that they name."""

    def __init__(
        self,
        agent: grpc.aio.Channel | None,
        dialogue: Dialogue,
        files: Sequence[Attachment],
        failed: Callable[[str, str], None],
    ) -> None:
        """`files` go with the first message; `failed` hears of a message and why it is not sent."""
        self._agent = agent
        self._dialogue = dialogue
        self._first = list(files)
        self._failed = failed
        self._waiting = asyncio.Queue[tuple[str, str]]()

    def say(self, text: str) -> str:
        """Send a message soon; return its id."""
        message_id = new_id("msg")
        self._waiting.put_nowait((message_id, text))
        return message_id

    async def run(self) -> None:
        while True:
            message_id, text = await self._waiting.get()
            try:
                shown, found = await asyncio.to_thread(find, text)
                if not shown.startswith(("/", "!")):
                    found, self._first = [*self._first, *found], []
                if found and self._agent is None:
                    raise InvalidArgument(NOT_NEAR)
                files = [] if self._agent is None else await upload(self._agent, found)
            except HermesError as error:
                self._failed(message_id, error.message)
            except grpc.aio.AioRpcError as error:
                self._failed(message_id, details_of(error).message)
            else:
                self._dialogue.say(shown, message_id, files)
