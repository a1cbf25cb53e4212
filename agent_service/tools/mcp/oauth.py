"""OAuth 2.1 logins at MCP servers, in the login store. Imports the SDK, so it is imported late."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl

from agent_service.models.oauth.store import LoginStore
from agent_service.records.mcp import LOGINS
from services.clock import Clock

_MAX_REQUEST_BYTES = 16_384
_PAGE = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n"


class StoredLogin(OAuthClientProvider):
    """Renews a stored login; a person logs in only if `ask` is given."""

    def __init__(
        self,
        name: str,
        url: str,
        logins: LoginStore,
        clock: Clock,
        callback: "Callback | None" = None,
    ) -> None:
        self._name = name
        self._url = url
        self._logins = logins
        self._clock = clock
        self._callback = callback
        uri = "http://127.0.0.1/callback" if callback is None else callback.uri
        metadata = OAuthClientMetadata(client_name="Hermes", redirect_uris=[AnyUrl(uri)])
        super().__init__(url, metadata, self, self._show, self._wait)

    async def _initialize(self) -> None:
        await super()._initialize()
        if self._callback is not None:
            # The registration must name this callback, so log in anew.
            self.context.client_info = self.context.current_tokens = None
            return
        entry = await self._entry()
        self.context.token_expiry_time = entry.get("expires_at")
        if told := entry.get("metadata"):
            self.context.oauth_metadata = OAuthMetadata.model_validate(told)
        if told := entry.get("resource"):
            self.context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(
                told
            )

    async def get_tokens(self) -> OAuthToken | None:
        found = (await self._entry()).get("tokens")
        return None if found is None else OAuthToken.model_validate(found)

    async def set_tokens(self, tokens: OAuthToken) -> None:
        context = self.context
        expires_at = None
        if tokens.expires_in is not None:
            end = self._clock.now() + timedelta(seconds=tokens.expires_in)
            expires_at = end.timestamp()
        known = {
            "metadata": context.oauth_metadata,
            "resource": context.protected_resource_metadata,
            "client": context.client_info,
        }
        kept = {key: _plain(value) for key, value in known.items() if value is not None}
        entry = {"url": self._url, "tokens": _plain(tokens), "expires_at": expires_at, **kept}
        secrets = (tokens.access_token, tokens.refresh_token or "")
        await self._logins.keep_entry(LOGINS, self._name, entry, secrets, self._clock.now())

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        found = (await self._entry()).get("client")
        return None if found is None else OAuthClientInformationFull.model_validate(found)

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Nothing to do: the registration is stored with the tokens."""

    async def _entry(self) -> Mapping[str, Any]:
        """The login; empty if it is one at another server, which had the same name."""
        entry = await self._logins.read_entry(LOGINS, self._name)
        return entry if entry.get("url") == self._url else {}

    async def _show(self, url: str) -> None:
        if self._callback is None:
            raise OAuthFlowError(f"it wants a login: run hermes mcp login {self._name}")
        await self._callback.show(url)

    async def _wait(self) -> AuthorizationCodeResult:
        assert self._callback is not None, "_show has raised"
        return await self._callback.result()


def _plain(value: Any) -> dict[str, Any]:
    return value.model_dump(mode="json", exclude_none=True)


class Callback:
    """Listens on this machine for the answer of a login in a browser."""

    def __init__(self, show: Callable[[str], Awaitable[None]], port: int = 0) -> None:
        self.show = show
        self.uri = ""
        self._port = port
        self._query: asyncio.Future[Mapping[str, list[str]]] = (
            asyncio.get_running_loop().create_future()
        )

    async def __aenter__(self) -> "Callback":
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", self._port)
        port = self._server.sockets[0].getsockname()[1]
        self.uri = f"http://127.0.0.1:{port}/callback"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def result(self) -> AuthorizationCodeResult:
        """The code; OAuthFlowError if the login was refused."""
        query = await self._query
        code, state, issuer, error = (
            next(iter(query.get(name, ())), None) for name in ("code", "state", "iss", "error")
        )
        if code is None:
            raise OAuthFlowError(f"the login was refused: {error or 'there was no code'}")
        return AuthorizationCodeResult(code=code, state=state, iss=issuer)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = (await reader.read(_MAX_REQUEST_BYTES)).split(b"\r\n", 1)[0].decode("latin-1")
        target = urlsplit([*line.split(" "), ""][1])
        if target.path == "/callback" and not self._query.done():
            self._query.set_result(parse_qs(target.query))
        writer.write(_PAGE + b"<p>You can close this page and go back to the terminal.</p>")
        writer.close()
