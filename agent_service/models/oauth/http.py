"""Small requests to login servers, with errors that contain no secrets."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from msgspec import Struct
from pydantic import SecretStr

from agent_service.models.oauth.tokens import NOTHING, LoginUnavailable, text
from agent_service.models.proxies import is_loopback, open_session
from services.errors import ServiceUnavailable
from services.redaction.redactor import Redactor
from services.validation import json_object, object_of

if TYPE_CHECKING:
    from aiohttp import StreamReader

TIMEOUT_S = 15.0
MAX_ANSWER_BYTES = 256 * 1024
_MAX_WORDS = 200

Fields = Mapping[str, str | int | SecretStr]
"""Request fields by name; secrets are SecretStr."""


class Answer(Struct, frozen=True):
    """A login server's response."""

    status: int
    body: Mapping[str, Any]
    """Empty if it is not a JSON object."""
    sent: tuple[SecretStr, ...] = ()
    """The secrets in the request, which the response may repeat."""

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def code(self) -> str:
        """The error code, which providers put in different places."""
        error = self.body.get("error")
        inner = object_of(error)
        return text(inner.get("code")) if inner else text(error) or text(self.body.get("code"))

    @property
    def words(self) -> str:
        """The server's error message on one line without secrets, else its status."""
        inner = object_of(self.body.get("error"))
        said = text(self.body.get("error_description")) or text(inner.get("message")) or self.code
        hidden = Redactor(secret.get_secret_value() for secret in self.sent).redact(said)
        line = " ".join("".join(char if char.isprintable() else " " for char in hidden).split())
        return line[:_MAX_WORDS] or f"HTTP {self.status}"


class LoginServer:
    """A provider's login server."""

    def __init__(self, title: str, base_url: str) -> None:
        self._title = title
        self._base_url = base_url.rstrip("/")

    def url(self, path: str) -> str:
        return f"{self._base_url}{path}"

    async def form(self, path: str, fields: Fields, headers: Fields | None = None) -> Answer:
        return await self._post(path, "data", fields, headers or {})

    async def json(self, path: str, fields: Fields, bearer: SecretStr = NOTHING) -> Answer:
        """Post a JSON object, with a bearer token if there is one."""
        return await self._post(path, "json", fields, {}, bearer)

    async def _post(
        self, path: str, form: str, fields: Fields, headers: Fields, bearer: SecretStr = NOTHING
    ) -> Answer:
        import aiohttp

        told = {"Accept": "application/json", **_revealed(headers)}
        if token := bearer.get_secret_value():
            told["Authorization"] = f"Bearer {token}"
        content: Any = {form: _revealed(fields)}
        try:
            async with (
                asyncio.timeout(TIMEOUT_S),
                await open_session(self._base_url) as session,
                session.post(
                    self.url(path), headers=told, allow_redirects=False, **content
                ) as response,
            ):
                body = await self._read(response.content)
        except ServiceUnavailable as error:
            raise self._unavailable(error.message) from None
        except (TimeoutError, OSError, aiohttp.ClientError, ValueError) as error:
            # Its text may quote a header with a token.
            raise self._unavailable(f"no answer, {type(error).__name__}") from None
        if response.status >= 500 or response.status == 429:
            raise self._unavailable(f"HTTP {response.status}")
        values = (*fields.values(), *headers.values(), bearer)
        sent = tuple(value for value in values if isinstance(value, SecretStr))
        return Answer(response.status, json_object(body) or {}, sent)

    async def _read(self, content: "StreamReader") -> bytes:
        body = bytearray()
        async for chunk in content.iter_any():
            body += chunk
            if len(body) > MAX_ANSWER_BYTES:
                raise self._unavailable("its answer has no end")
        return bytes(body)

    def _unavailable(self, why: str) -> LoginUnavailable:
        host = urlsplit(self._base_url).netloc.rpartition("@")[2]
        return LoginUnavailable(f"{self._title} cannot be asked at {host} ({why}): try again later")


def _revealed(fields: Fields) -> dict[str, Any]:
    return {
        name: value.get_secret_value() if isinstance(value, SecretStr) else value
        for name, value in fields.items()
    }


def fit_for_tokens(url: str) -> bool:
    """Whether requests to a URL cannot be read by others."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return bool(parts.hostname) and (
        parts.scheme == "https" or (parts.scheme == "http" and is_loopback(url))
    )
