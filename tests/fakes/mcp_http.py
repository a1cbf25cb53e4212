"""An MCP server of the SDK behind HTTP: of the newest protocol, with an OAuth server of its own.

`python -m tests.fakes.mcp_http PORT` serves it at /mcp, and at /sse in the older way. Logins need
nobody; tokens live a second.
"""

import secrets
import sys
import time
from typing import Any

import uvicorn
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from mcp_types import ToolAnnotations
from pydantic import AnyHttpUrl

LIFE_S = 1
READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)


class Logins:
    """Grants everything to everybody, and rotates refresh tokens."""

    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.refresh: dict[str, RefreshToken] = {}
        self.access: dict[str, AccessToken] = {}

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        assert client_info.client_id is not None
        self.clients[client_info.client_id] = client_info

    async def authorize(
        self, client: OAuthClientInformationFull, params: AuthorizationParams
    ) -> str:
        code = AuthorizationCode(
            code=secrets.token_hex(16),
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id or "",
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.pop(authorization_code, None)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        return self._tokens(client.client_id or "", authorization_code.resource)

    async def load_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: str
    ) -> RefreshToken | None:
        return self.refresh.pop(refresh_token, None)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        return self._tokens(client.client_id or "", refresh_token.resource)

    async def load_access_token(self, token: str) -> AccessToken | None:
        found = self.access.get(token)
        return found if found and (found.expires_at or 0) > time.time() else None

    async def revoke_token(self, token: Any) -> None:
        self.refresh.clear()

    def _tokens(self, client_id: str, resource: str | None) -> OAuthToken:
        access, refresh = secrets.token_hex(16), secrets.token_hex(16)
        ends = int(time.time()) + LIFE_S + 1
        kept: dict[str, Any] = {"client_id": client_id, "scopes": [], "resource": resource}
        self.access[access] = AccessToken(token=access, expires_at=ends, **kept)
        self.refresh[refresh] = RefreshToken(token=refresh, **kept)
        return OAuthToken(access_token=access, refresh_token=refresh, expires_in=LIFE_S)


def served(port: int, *, has_logins: bool) -> Any:
    """The server as an ASGI application."""
    base = f"http://127.0.0.1:{port}"
    more: dict[str, Any] = {}
    if has_logins:
        auth = AuthSettings(
            issuer_url=AnyHttpUrl(base),
            resource_server_url=AnyHttpUrl(f"{base}/mcp"),
            validate_token_resource=True,
            client_registration_options=ClientRegistrationOptions(enabled=True),
        )
        more = {"auth": auth, "auth_server_provider": Logins()}
    server = MCPServer("http", **more)

    @server.tool(annotations=READS)
    def add(a: int, b: int) -> int:
        """Adds numbers."""
        return a + b

    @server.tool(annotations=READS)
    def much() -> str:
        """Says too much."""
        return "x" * 20_000_000

    @server.resource("memo://first")
    def first() -> str:
        """The first memo."""
        return "Feed the otters."

    app = server.streamable_http_app()
    app.router.routes.extend(server.sse_app().routes)
    return app


if __name__ == "__main__":
    port = int(sys.argv[1])
    app = served(port, has_logins="--logins" in sys.argv)
    uvicorn.run(app, port=port, log_level="warning")
