"""Received files of Matrix, decrypted as they arrive: only their sender says how large they are."""

import hashlib
from base64 import urlsafe_b64decode
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from gateway_service.errors import Refused
from gateway_service.platforms.matrix.events import Keys
from services.rpc.uploads import CHUNK_BYTES
from services.validation import json_object

if TYPE_CHECKING:
    from nio import AsyncClient


async def read_file(
    client: "AsyncClient", url: str, check: Callable[[Any], object]
) -> AsyncGenerator[bytes]:
    """Yield a file's content; `check` gets the homeserver's refusal."""
    from nio import Api, DownloadError

    place = urlsplit(url)
    method, path = Api.download(place.netloc, place.path.strip("/"))
    path = path.partition("?")[0]  # which would show the token in logs
    headers = {"Authorization": f"Bearer {client.access_token}"}
    async with await client.send(method, path, headers=headers, timeout=0) as answer:
        if answer.status != 200:
            refusal = json_object(await answer.content.read(CHUNK_BYTES))
            check(DownloadError.from_dict(refusal or {}))
        async for chunk in answer.content.iter_chunked(CHUNK_BYTES):
            yield chunk


class Decryption:
    """Decrypts a file whose digest is checked at its end."""

    def __init__(self, keys: Keys) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher
        from cryptography.hazmat.primitives.ciphers.algorithms import AES
        from cryptography.hazmat.primitives.ciphers.modes import CTR

        try:
            cipher = Cipher(AES(_decode(keys.key["k"])), CTR(_decode(keys.iv)))
            self._expected = _decode(keys.hashes["sha256"])
        except (KeyError, TypeError, ValueError) as error:
            raise Refused("matrix: the file's keys cannot be read") from error
        self._cipher = cipher.decryptor()
        self._digest = hashlib.sha256()

    def read(self, chunk: bytes) -> bytes:
        """Return the next part of the file."""
        self._digest.update(chunk)
        return self._cipher.update(chunk)

    def finish(self) -> None:
        """Refuse a file that was changed on its way."""
        if self._digest.digest() != self._expected:
            raise Refused("matrix: the file is not what its sender has sent")


def _decode(text: str) -> bytes:
    """Decode either alphabet of base64, without padding."""
    text = text.replace("+", "-").replace("/", "_")
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
