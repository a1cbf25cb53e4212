"""Files of Telegram's messages: how it shows ours, and where it keeps those of people."""

import asyncio
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, cast

from gateway_service.messages import Attachment

if TYPE_CHECKING:
    from telegram import Bot, Message

MAX_BYTES = 50_000_000
MAX_PHOTO_BYTES = 10_000_000
CAPTION_UNITS = 1024
ALBUM_PICTURES = 10
ANSWER_S = 60.0
"""How long Telegram may process a file before it answers."""


DOCUMENT, _PHOTO = "document", "photo"
"""What a file is sent as: the suffix of the method's name, and the field's name."""
_KINDS = {
    **dict.fromkeys((".jpg", ".jpeg", ".png", ".webp"), _PHOTO),
    ".gif": "animation",
    ".mp4": "video",
    **dict.fromkeys((".mp3", ".m4a"), "audio"),
    **dict.fromkeys((".ogg", ".oga", ".opus"), "voice"),
}


def choose_kind(files: Sequence[Attachment]) -> str:
    """Choose the kind of a message's files by their suffixes and sizes."""
    kinds = {_choose_kind(file) for file in files}
    return kinds.pop() if len(kinds) == 1 else DOCUMENT


def _choose_kind(file: Attachment) -> str:
    kind = _KINDS.get(PurePosixPath(file.name).suffix.lower(), DOCUMENT)
    is_too_large = kind == _PHOTO and file.length_bytes > MAX_PHOTO_BYTES
    return DOCUMENT if is_too_large else kind


async def send_files(
    bot: "Bot", kind: str, files: Sequence[Attachment], **fields: Any
) -> "Message":
    """Send a file, or pictures as an album; `fields` are those that all kinds of messages have."""
    from telegram import InputFile, InputMediaDocument, InputMediaPhoto

    if len(files) > 1:
        as_media = cast("Any", InputMediaPhoto if kind == _PHOTO else InputMediaDocument)
        media = [await asyncio.to_thread(as_media, file.data, filename=file.name) for file in files]
        del fields["reply_markup"]  # albums have no buttons
        return (await bot.send_media_group(media=media, **fields, read_timeout=ANSWER_S))[0]
    # InputFile may read the machine's MIME files to guess the type.
    uploaded = await asyncio.to_thread(InputFile, files[0].data, filename=files[0].name)
    send = getattr(bot, f"send_{kind}")
    return await send(**{kind: uploaded}, **fields, read_timeout=ANSWER_S)


def place_of_files(base_url: str) -> str:
    """Return what a bot's token is appended to for files."""
    return f"{base_url.removesuffix('/bot')}/file/bot"
