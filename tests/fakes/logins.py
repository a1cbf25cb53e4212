"""The login servers of Nous Portal and OpenAI for tests, strict about what they are asked.

Refresh tokens are good for one use, and who uses one again loses the login, as there.
"""

import asyncio
import base64
import json
import secrets
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl

from aiohttp import web

from services.clock import Clock, SystemClock
from tests.fakes.http_server import bind, serving

NOUS_CLIENT, CODEX_CLIENT = "hermes-cli", "app_EMoamEEZ73f0CkXaXp7hrann"
NOUS_SCOPE = "inference:invoke inference:mint_agent_key"
ACCOUNT = "acc-0123456789"
USER_CODE = "ABCD-EFGH"
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"

Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as it came in."""

    path: str
    headers: Mapping[str, str]
    fields: Fields


@dataclass(slots=True)
class FakeLogins:
    """Both servers at once.

    `polls` is what is answered before a code counts as confirmed: an error's name or a status;
    `failures` are statuses that the next renewals get first.
    """

    clock: Clock = field(default_factory=SystemClock)
    url: str = ""
    polls: list[str | int] = field(default_factory=list[str | int])
    failures: list[int] = field(default_factory=list[int])
    interval: object = 1
    code_s: float = 900
    token_s: float = 3600
    scope: str = NOUS_SCOPE
    models_url: str = ""
    """What Nous Portal says of where its models are."""
    no_device_codes: bool = False
    mint_error: str = ""
    asked: list[Asked] = field(default_factory=list[Asked])
    issued: list[str] = field(default_factory=list[str])
    """Every secret that was ever given out."""
    revoked: list[str] = field(default_factory=list[str])
    _came: asyncio.Event = field(default_factory=asyncio.Event)
    _good: set[str] = field(default_factory=set[str])
    _used: set[str] = field(default_factory=set[str])

    def at(self, path: str) -> list[Asked]:
        """The requests to a path."""
        return [asked for asked in self.asked if asked.path == path]

    @property
    def renewals(self) -> int:
        """How often a refresh token was sent."""
        fields = [asked.fields.get("grant_type") for asked in self.asked]
        return fields.count("refresh_token")

    def tokens(self) -> dict[str, Any]:
        """Tokens of a new login, or of one that is renewed."""
        ends = self.clock.now() + timedelta(seconds=self.token_s)
        refresh = self._new("refresh")
        self._good.add(refresh)
        said = {"exp": ends.timestamp(), "https://api.openai.com/auth": _account(ACCOUNT)}
        return {"access_token": self.jwt(said), "refresh_token": refresh}

    def jwt(self, claims: Mapping[str, Any]) -> str:
        """A token that says something, and is like no other."""
        parts = (_encoded({"alg": "none"}), _encoded(claims), self._new("signature"))
        self.issued.append(token := ".".join(parts))
        return token

    def end_all(self) -> None:
        """Take no refresh token any more, as when a person has ended the login elsewhere."""
        self._used |= self._good
        self._good.clear()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until requests that came make the condition true."""
        while not condition():
            self._came.clear()
            await self._came.wait()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer a request."""
        body = await request.text()
        is_json = request.content_type == "application/json"
        fields: Fields = json.loads(body) if is_json else dict(parse_qsl(body))
        self.asked.append(asked := Asked(request.path, request.headers, fields))
        self._came.set()
        answers: Mapping[tuple[str, bool], Callable[[Asked], web.Response]] = {
            ("/api/oauth/device/code", False): self._nous_code,
            ("/api/oauth/token", False): self._nous_token,
            ("/api/oauth/agent-key", True): self._key,
            ("/api/accounts/deviceauth/usercode", True): self._codex_code,
            ("/api/accounts/deviceauth/token", True): self._codex_poll,
            ("/oauth/token", False): self._codex_exchange,
            ("/oauth/token", True): lambda sent: self._renewed(sent.fields["refresh_token"], sent),
            ("/oauth/revoke", True): self._revoke,
        }
        answer = answers.get((request.path, is_json))
        return _error(404, "not_found") if answer is None else answer(asked)

    def _revoke(self, asked: Asked) -> web.Response:
        self.revoked.append(asked.fields["token"])
        return web.json_response({})

    def _nous_token(self, asked: Asked) -> web.Response:
        if asked.fields.get("grant_type") == DEVICE_GRANT:
            return self._nous_poll(asked.fields)
        return self._renewed(asked.headers.get("x-nous-refresh-token"), asked)

    def _nous_code(self, asked: Asked) -> web.Response:
        if asked.fields != {"client_id": NOUS_CLIENT, "scope": NOUS_SCOPE}:
            return _error(400, "invalid_client")
        page = f"{self.url}/device"
        return web.json_response(
            {
                "device_code": self._new("device"),
                "user_code": USER_CODE,
                "expires_in": self.code_s,
                "interval": self.interval,
                "verification_uri": page,
                "verification_uri_complete": f"{page}?code={USER_CODE}",
            }
        )

    def _nous_poll(self, fields: Fields) -> web.Response:
        if fields["client_id"] != NOUS_CLIENT or fields["device_code"] not in self.issued:
            return _error(400, "invalid_grant")
        if self.polls:
            answer = self.polls.pop(0)
            return _error(answer) if isinstance(answer, int) else _error(400, answer)
        return web.json_response(self._nous_tokens())

    def _nous_tokens(self) -> dict[str, Any]:
        told = {"token_type": "Bearer", "scope": self.scope, "expires_in": self.token_s}
        url = {"inference_base_url": self.models_url} if self.models_url else {}
        return {**self.tokens(), **told, **url}

    def _key(self, asked: Asked) -> web.Response:
        if asked.headers["authorization"].removeprefix("Bearer ") not in self.issued:
            return _error(401, "invalid_token")
        if self.mint_error or asked.fields["min_ttl_seconds"] < 60:
            return _error(402, self.mint_error or "invalid_request")
        ends = self.clock.now() + timedelta(seconds=self.token_s)
        told = {"key_id": "1", "expires_at": ends.isoformat(), "expires_in": self.token_s}
        return web.json_response({"api_key": self._new("key"), **told})

    def _codex_code(self, asked: Asked) -> web.Response:
        if self.no_device_codes:
            return _error(404)
        if asked.fields != {"client_id": CODEX_CLIENT}:
            return _error(400, "invalid_client")
        ends = self.clock.now() + timedelta(seconds=self.code_s)
        told = {"user_code": USER_CODE, "interval": str(self.interval), "expires_at": str(ends)}
        return web.json_response({"device_auth_id": self._new("device"), **told})

    def _codex_poll(self, asked: Asked) -> web.Response:
        fields = asked.fields
        if fields["device_auth_id"] not in self.issued or fields["user_code"] != USER_CODE:
            return _error(404, "deviceauth_authorization_unknown")
        if self.polls:
            match self.polls.pop(0):
                case int(status):
                    return _error(status)
                case name:
                    return _error(403, name, nested=True)
        confirmed = {"authorization_code": self._new("code"), "code_verifier": self._new("verify")}
        return web.json_response({**confirmed, "code_challenge": "challenge"})

    def _codex_exchange(self, asked: Asked) -> web.Response:
        fields = asked.fields
        said = (fields["grant_type"], fields["client_id"], fields["redirect_uri"])
        expected = ("authorization_code", CODEX_CLIENT, f"{self.url}/deviceauth/callback")
        known = {fields["code"], fields["code_verifier"]} <= {*self.issued}
        if said != expected or not known:
            return _error(400, "invalid_grant")
        if self.failures:
            return _error(self.failures.pop(0))
        said = {"email": "person@example.org", "https://api.openai.com/auth": _account(ACCOUNT)}
        return web.json_response({**self.tokens(), "id_token": self.jwt(said)})

    def _renewed(self, token: str | None, asked: Asked) -> web.Response:
        is_nous = asked.fields["client_id"] == NOUS_CLIENT
        if asked.fields["grant_type"] != "refresh_token":
            return _error(400, "unsupported_grant_type")
        if self.failures:
            return _error(self.failures.pop(0))
        if token not in self._good:
            self._good.clear()
            code = "refresh_token_reused" if token in self._used else "invalid_grant"
            return _error(400 if is_nous else 401, code, nested=not is_nous)
        self._good.discard(token)
        self._used.add(token)
        return web.json_response(self._nous_tokens() if is_nous else self.tokens())

    def _new(self, kind: str) -> str:
        self.issued.append(value := f"{kind}-{secrets.token_hex(16)}")
        return value


def _account(account: str) -> dict[str, str]:
    return {"chatgpt_account_id": account, "chatgpt_plan_type": "plus"}


def _encoded(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def _error(status: int, code: str = "", *, nested: bool = False) -> web.Response:
    if not code:
        return web.Response(status=status, text="scripted")
    error: object = {"code": code, "message": f"It says {code}."} if nested else code
    return web.json_response({"error": error}, status=status)


@asynccontextmanager
async def fake_logins(clock: Clock | None = None) -> AsyncGenerator[FakeLogins]:
    """Run the servers for as long as the context is open."""
    fake = FakeLogins(clock or SystemClock())
    listener, fake.url = bind()
    async with serving(listener, fake.handle):
        yield fake
