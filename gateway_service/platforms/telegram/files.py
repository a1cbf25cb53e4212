"""How Telegram shows a file: as a picture, audio or video if possible, else as a document."""

import asyncio
from enum import StrEnum
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from gateway_service.messages import Attachment

if TYPE_CHECKING:
    from telegram import Bot, Message

MAX_BYTES = 50_000_000
MAX_PHOTO_BYTES = 10_000_000
CAPTION_UNITS = 1024
ANSWER_S = 60.0
"""How long Telegram may process a file before it answers."""


class Kind(StrEnum):
    """What a file is sent as: the suffix of the method's name, and the field's name."""

    PHOTO = "photo"
    ANIMATION = "animation"
    VIDEO = "video"
    AUDIO = "audio"
    VOICE = "voice"
    DOCUMENT = "document"


_KINDS = {
    **dict.fromkeys((".jpg", ".jpeg", ".png", ".webp"), Kind.PHOTO),
    ".gif": Kind.ANIMATION,
    ".mp4": Kind.VIDEO,
    **dict.fromkeys((".mp3", ".m4a"), Kind.AUDIO),
    **dict.fromkeys((".ogg", ".oga", ".opus"), Kind.VOICE),
}


def choose_kind(file: Attachment) -> Kind:
    """Choose a kind by a file's suffix and size."""
    kind = _KINDS.get(PurePosixPath(file.name).suffix.lower(), Kind.DOCUMENT)
    is_too_large = kind is Kind.PHOTO and file.length_bytes > MAX_PHOTO_BYTES
    return Kind.DOCUMENT if is_too_large else kind


async def send_file(bot: "Bot", kind: Kind, file: Attachment, **fields: Any) -> "Message":
    """Send a file; `fields` are those that all kinds of messages have."""
    from telegram import InputFile

    # InputFile may read the machine's MIME files to guess the type.
    uploaded = await asyncio.to_thread(InputFile, file.data, filename=file.name)
    send = getattr(bot, f"send_{kind}")
    return await send(**{kind: uploaded}, **fields, read_timeout=ANSWER_S)
