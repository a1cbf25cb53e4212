"""Files as the Bot API takes them: parts of a form, of which only some methods know a kind."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from email import policy
from email.parser import BytesParser
from urllib.parse import parse_qsl

from starlette.requests import Request

from tests.fakes.telegram_rules import Refused

KINDS = {
    f"send{kind.capitalize()}": kind
    for kind in ("photo", "animation", "video", "audio", "voice", "document")
}
MAX_BYTES = 50_000_000
MAX_PHOTO_BYTES = 10_000_000
MAX_DOWNLOAD_BYTES = 20_000_000


@dataclass(frozen=True, slots=True)
class File:
    """A file as people get it."""

    kind: str
    name: str
    data: bytes


async def posted(request: Request) -> tuple[dict[str, str], list[File]]:
    """The fields of a form, and its files by their fields."""
    body, kind = await request.body(), request.headers.get("content-type", "")
    if not kind.startswith("multipart/"):
        return dict(parse_qsl(body.decode(), keep_blank_values=True)), []
    whole = f"content-type: {kind}\r\n\r\n".encode() + body
    fields: dict[str, str] = {}
    files: list[File] = []
    for part in BytesParser(policy=policy.HTTP).parsebytes(whole).iter_parts():
        name = str(part.get_param("name", header="content-disposition"))
        data = part.get_payload(decode=True)
        assert isinstance(data, bytes)
        if filename := part.get_filename():
            files.append(File(name, filename, data))
        else:
            fields[name] = data.decode()
    return fields, files


def checked_file(method: str, files: list[File]) -> File:
    """The one file of a call, or what Telegram says of it."""
    return _checked(KINDS[method], files)


def checked_album(fields: dict[str, str], files: list[File]) -> list[tuple[dict[str, str], File]]:
    """What the messages of an album have, and their files, or what Telegram says of it."""
    media = json.loads(fields["media"])
    if not 2 <= len(media) <= 10 or len({each["type"] == "document" for each in media}) > 1:
        raise Refused(400, "Bad Request: group send failed")
    album: list[tuple[dict[str, str], File]] = []
    for each in media:
        part = [file for file in files if f"attach://{file.kind}" == each["media"]]
        named = [replace(file, kind=each["type"]) for file in part]
        own = {name: each[name] for name in ("caption", "parse_mode") if name in each}
        album.append(({**fields, **own}, _checked(each["type"], named)))
    return album


def _checked(kind: str, files: list[File]) -> File:
    found = [file for file in files if file.kind == kind]
    if len(found) != 1 or not found[0].data:
        raise Refused(400, "Bad Request: file must be non-empty")
    if len(found[0].data) > (MAX_PHOTO_BYTES if kind == "photo" else MAX_BYTES):
        raise Refused(413, "Request Entity Too Large")
    if kind == "photo" and not found[0].data.startswith((b"\x89PNG", b"\xff\xd8\xff")):
        raise Refused(400, "Bad Request: IMAGE_PROCESS_FAILED")
    return found[0]


def found_file(files: Mapping[str, bytes], file_id: str) -> dict[str, str]:
    """Where a file that somebody sent is, or what Telegram says of it."""
    if file_id not in files:
        raise Refused(400, "Bad Request: invalid file_id")
    if len(files[file_id]) > MAX_DOWNLOAD_BYTES:
        raise Refused(400, "Bad Request: file is too big")
    return {"file_id": file_id, "file_unique_id": file_id, "file_path": f"files/{file_id}"}
