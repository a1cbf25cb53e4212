"""Files as messages name them."""

import hashlib
import re

from msgspec import Struct

from hermes.common.v1.content_pb2 import (
    FILE_KIND_AUDIO,
    FILE_KIND_DOCUMENT,
    FILE_KIND_IMAGE,
    FILE_KIND_VIDEO,
    MessageFile,
)
from services.home.media_types import media_type

_KINDS = {"image": FILE_KIND_IMAGE, "audio": FILE_KIND_AUDIO, "video": FILE_KIND_VIDEO}
_PICTURE = re.compile(rb"\x89PNG\r\n|\xff\xd8\xff|GIF8[79]a|RIFF.{4}WEBP", re.DOTALL)


class Attachment(Struct, frozen=True):
    """A file as it is sent."""

    name: str
    data: bytes
    media_type: str = ""
    """Empty: that of its name or contents."""

    @property
    def is_picture(self) -> bool:
        return _PICTURE.match(self.data) is not None


def message_file(file: Attachment) -> MessageFile:
    """Return a file as messages name it."""
    known = file.media_type or media_type(file.name, "image/png" if file.is_picture else "")
    return MessageFile(
        kind=_KINDS.get(known.partition("/")[0], FILE_KIND_DOCUMENT),
        name=file.name,
        mime_type=known,
        length_bytes=len(file.data),
        sha256=hashlib.sha256(file.data).digest(),
    )
