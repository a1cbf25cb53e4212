"""Received files of Matrix, decrypted as they arrive: only their sender says how large they are."""

import hashlib
from base64 import urlsafe_b64decode
from collections.abc import AsyncGenerator
from contextlib import aclosing
from urllib.parse import quote, urlsplit

from gateway_service.errors import Refused
from gateway_service.platforms.base import UNREADABLE, Json
from gateway_service.platforms.http_api import HttpApi
from gateway_service.platforms.matrix.config import MatrixConfig

_MEDIA = "/_matrix/client/v1/media/download"


async def read_file(config: MatrixConfig, url: str) -> AsyncGenerator[bytes]:
    """Yield the content of a file by its `mxc:` URL."""
    place = urlsplit(url)
    path = f"{_MEDIA}/{quote(place.netloc)}/{quote(place.path.strip('/'), safe='')}"
    headers = {"Authorization": f"Bearer {config.token.get_secret_value()}"}
    async with (
        HttpApi("matrix", config.url, headers, "MATRIX_ACCESS_TOKEN") as api,
        aclosing(api.download(path, follow=True)) as chunks,
    ):
        async for chunk in chunks:
            yield chunk


class Decryption:
    """Decrypts a file whose digest is checked at its end."""

    def __init__(self, keys: Json) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher
        from cryptography.hazmat.primitives.ciphers.algorithms import AES
        from cryptography.hazmat.primitives.ciphers.modes import CTR

        try:
            self.url = str(keys["url"])
            cipher = Cipher(AES(_decode(keys["key"]["k"])), CTR(_decode(keys["iv"])))
            self._expected = _decode(keys["hashes"]["sha256"])
        except UNREADABLE as error:
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
