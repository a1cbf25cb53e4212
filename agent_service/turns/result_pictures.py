"""Keeps the pictures of tool results, and shows them to the model."""

import hashlib
import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from msgspec import Struct

from agent_service.models.consult import Ask
from agent_service.models.pictures import picture_type
from agent_service.records.requests import FileKind, MessageFile
from agent_service.records.sandbox import Files, PathRefused, SandboxUnavailable
from agent_service.tools.base import Picture, ShownPictures
from agent_service.tools.picture_viewer import MessageParts, PictureViewer

FOLDER = "pictures"
MOST_SHOWN = 8
_UNSAFE = re.compile(r"[^\w-]+")


class ResultPictures(Struct, frozen=True):
    """The pictures of one turn's results."""

    sight: PictureViewer
    model: str
    files: Files
    keep: Callable[[str, str, bytes], Awaitable[None]]
    """Keeps a file of a path and digest with the session."""

    async def show(self, pictures: Sequence[Picture], ask: Ask) -> ShownPictures:
        found = MessageParts()
        for picture in pictures[:MOST_SHOWN]:
            await self._show(picture, ask, found)
        if left := len(pictures[MOST_SHOWN:]):
            found.add(f"[{left} more pictures are left out.]")
        notices = tuple(found.notices)
        if found.is_text:
            return ShownPictures(found.text, notices=notices)
        return ShownPictures(parts=found.parts, notices=notices)

    async def _show(self, picture: Picture, ask: Ask, found: MessageParts) -> None:
        mime_type = picture_type(picture.data)
        if mime_type is None:
            found.add("[A picture is left out: it is not PNG, JPEG, GIF or WebP.]")
            return
        digest = hashlib.sha256(picture.data).hexdigest()
        name = _UNSAFE.sub("-", picture.name)[:60].strip("-") or "picture"
        # The digest makes the path the same when the call is repeated, and unique otherwise.
        path = f"{FOLDER}/{name}-{digest[:8]}.{mime_type.partition('/')[2]}"
        await self.keep(path, digest, picture.data)
        with suppress(SandboxUnavailable, PathRefused):  # the next use of the sandbox brings it
            await self.files.write(path, picture.data)
        file = MessageFile(
            digest, len(picture.data), FileKind.IMAGE, mime_type=mime_type, path=path
        )
        await self.sight.look(self.model, file, mime_type, ask, found)
