"""Files of HTTP clients, on their way to the agent."""

import base64
import binascii
from collections.abc import AsyncGenerator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from gateway_service.clients import AgentClient
from gateway_service.config import MediaConfig
from gateway_service.errors import Refused
from gateway_service.messages import UploadedFile
from gateway_service.servicer.http.requests import GivenFile
from gateway_service.storage.file_cache import FileCache
from services.errors import InvalidArgument

MAX_FILES = 20
_STEP = 256 * 1024
"""Characters that are decoded at once; a multiple of four."""


class Uploads(Struct, frozen=True):
    """Gives the agent the files of messages."""

    _agent: AgentClient
    _cache: FileCache
    _media: MediaConfig

    async def pass_on(self, files: Sequence[GivenFile]) -> tuple[UploadedFile, ...]:
        """Return the files as the agent has them; InvalidArgument if one cannot be taken."""
        if len(files) > MAX_FILES:
            raise InvalidArgument(f"a message has at most {MAX_FILES} files")
        return tuple([await self._pass_on(each) for each in files])

    async def _pass_on(self, given: GivenFile) -> UploadedFile:
        file = given.file
        try:
            found = await self._cache.fetch(
                file, _decode(given.base64), self._media.max_bytes(file.kind)
            )
        except Refused as error:
            raise InvalidArgument(f"a file ({file.kind}) is not read: {error.message}") from None
        except binascii.Error:
            raise InvalidArgument(f"a file ({file.kind}) is not valid base64") from None
        await self._agent.upload(found)
        named = replace(file, length_bytes=found.length_bytes)
        return UploadedFile(named, found.length_bytes, found.sha256)


async def _decode(text: str) -> AsyncGenerator[bytes]:
    for start in range(0, len(text), _STEP):
        yield base64.b64decode(text[start : start + _STEP], validate=True)
