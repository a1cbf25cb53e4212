"""What clients of the HTTP API send."""

import hashlib
import re
from collections.abc import Sequence
from typing import TypeAlias

from msgspec import Struct

from gateway_service.messages import EarlierMessage, FileKind, RemoteFile, find_kind
from services.errors import InvalidArgument

MAX_TEXT_BYTES = 1024 * 1024
MAX_EARLIER = 50
"""How many of a conversation's earlier messages a new session begins with; the last ones."""
MAX_SYSTEM_CHARS = 100_000

_TEXTS = ("text", "input_text", "output_text")
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)(?:;[\w.+-]+=[^;,]*)*;base64,", re.ASCII)
_INSTRUCTING = ("system", "developer")


class ImageUrl(Struct, frozen=True):
    """Where a picture is; only data URLs are read."""

    url: str = ""


class InputAudio(Struct, frozen=True):
    """A recording in base64."""

    data: str = ""
    format: str = "wav"


class FileData(Struct, frozen=True):
    """A file as a data URL."""

    file_data: str = ""
    filename: str = ""


class ContentPart(Struct, frozen=True):
    """A part of a message, in the shape of chat completions or of responses."""

    type: str = ""
    text: str = ""
    image_url: str | ImageUrl | None = None
    input_audio: InputAudio | None = None
    file: FileData | None = None
    file_data: str = ""
    filename: str = ""


Content: TypeAlias = str | list[ContentPart] | None


class GivenFile(Struct, frozen=True):
    """A file of a message."""

    file: RemoteFile
    base64: str

    @property
    def note(self) -> str:
        """Return what stands for it in the text of an earlier message."""
        return f"[{self.file.kind}]"


class InputMessage(Struct, frozen=True):
    """A message, or another item of a Responses request."""

    role: str = ""
    content: Content = None
    type: str = "message"


class StreamOptions(Struct, frozen=True):
    """What a stream has besides the answer."""

    include_usage: bool | None = None


class ChatRequest(Struct, frozen=True):
    """The body of /v1/chat/completions; other fields are ignored."""

    messages: list[InputMessage]
    model: str = ""
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: int | None = None
    user: str | None = None


class ResponseRequest(Struct, frozen=True):
    """The body of /v1/responses, and of /v1/runs; other fields are ignored."""

    input: str | list[InputMessage]
    model: str = ""
    instructions: str | None = None
    previous_response_id: str | None = None
    session_id: str | None = None
    background: bool | None = None
    stream: bool | None = None
    user: str | None = None


class Conversation(Struct, frozen=True):
    """What a client says, and what was said before."""

    text: str
    earlier: tuple[EarlierMessage, ...] = ()
    system_message: str = ""
    files: tuple[GivenFile, ...] = ()

    def after(self, answer: str) -> "Conversation":
        """Return the conversation as the client will know it once it has this answer."""
        said = EarlierMessage("user", _noted(self.text, self.files))
        return Conversation("", (*self.earlier, said, EarlierMessage("assistant", answer)))

    def fingerprint(self, user: str) -> str:
        """Return a digest of what was said before, which a user's next request has again.

        System messages and whitespace do not count: clients change them on the way.
        """
        digest = hashlib.sha256(user.encode())
        for each in self.earlier:
            words = " ".join(each.text.split()).encode()
            digest.update(b"\0%s %d " % (each.role.encode(), len(words)) + words)
        return digest.hexdigest()


def read_messages(messages: Sequence[InputMessage], instructions: str = "") -> Conversation:
    """Read a conversation, whose last message is what the client says now."""
    told = [instructions] if instructions else []
    said: list[tuple[str, str, tuple[GivenFile, ...]]] = []
    for number, message in enumerate(messages):
        if message.type != "message":
            continue
        text, files = _read(message.content, f"messages[{number}].content")
        if message.role in _INSTRUCTING:
            told.append(text)
        elif message.role in ("user", "assistant") and (text.strip() or files):
            said.append((message.role, text, files))
    if not said or said[-1][0] != "user":
        raise InvalidArgument(
            "the last message must be the user's and not empty", fields={"messages": "the user's"}
        )
    *before, (_, question, files) = said
    if len(question.encode()) > MAX_TEXT_BYTES:
        raise InvalidArgument("the message is too long", fields={"messages": "at most 1 MiB"})
    system = "\n\n".join(filter(str.strip, told))
    if len(system) > MAX_SYSTEM_CHARS:
        raise InvalidArgument(
            "the system message is too long", fields={"messages": f"at most {MAX_SYSTEM_CHARS}"}
        )
    earlier = tuple(EarlierMessage(role, _noted(text, sent)) for role, text, sent in before)
    return Conversation(question, earlier, system, files)


def read_input(request: ResponseRequest) -> Conversation:
    """Read the input of a Responses request or a run."""
    given = request.input
    messages = [InputMessage("user", given)] if isinstance(given, str) else given
    return read_messages(messages, request.instructions or "")


def shorten(earlier: Sequence[EarlierMessage]) -> tuple[EarlierMessage, ...]:
    """Return the last of some messages, as many as a new session takes."""
    kept: list[EarlierMessage] = []
    room = MAX_TEXT_BYTES
    for each in reversed(earlier[-MAX_EARLIER:]):
        room -= len(each.text.encode())
        if room < 0:
            break
        kept.append(each)
    return tuple(reversed(kept))


def _noted(text: str, files: Sequence[GivenFile]) -> str:
    return "\n".join(filter(None, (text, *(each.note for each in files))))


def _read(content: Content, field: str) -> tuple[str, tuple[GivenFile, ...]]:
    if content is None or isinstance(content, str):
        return content or "", ()
    texts = [part.text for part in content if part.type in _TEXTS]
    files = [
        _file(part, f"{field}[{number}]")
        for number, part in enumerate(content)
        if part.type not in _TEXTS
    ]
    return "\n".join(texts), tuple(files)


def _file(part: ContentPart, field: str) -> GivenFile:
    match part.type:
        case "image_url" | "input_image":
            url = part.image_url.url if isinstance(part.image_url, ImageUrl) else part.image_url
            return _decoded(url or "", "", field)
        case "input_audio" if part.input_audio is not None:
            mime, data = f"audio/{part.input_audio.format}", part.input_audio.data
            return GivenFile(RemoteFile(FileKind.VOICE, "", "", mime), data)
        case "file" | "input_file":
            sent = part.file or FileData(part.file_data, part.filename)
            return _decoded(sent.file_data, sent.filename, field)
        case _:
            raise _unsupported(f"content of type {part.type!r} is not supported", f"{field}.type")


def _decoded(url: str, name: str, field: str) -> GivenFile:
    found = _DATA_URL.match(url)
    if found is None:
        raise _unsupported("files are sent as data URLs (data:image/png;base64,…)", field)
    mime = found[1].lower()
    return GivenFile(RemoteFile(find_kind(mime), "", name, mime), url[found.end() :])


def _unsupported(message: str, field: str) -> InvalidArgument:
    code = {"code": "unsupported_content"}
    return InvalidArgument(message, fields={field: message}, metadata=code)
