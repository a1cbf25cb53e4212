"""Nous Portal logins: a device code (RFC 8628), and a model key where necessary."""

from collections.abc import AsyncGenerator, Mapping
from datetime import datetime
from typing import Any

from msgspec.structs import replace
from pydantic import SecretStr

from agent_service.models.oauth.http import Answer, fit_for_tokens
from agent_service.models.oauth.issuer import Issuer, PendingDeviceCode, Wait
from agent_service.models.oauth.tokens import (
    Login,
    LoginFailed,
    LoginNeeded,
    Token,
    claims,
    end_of,
    moment,
    text,
)

PORTAL_URL = "https://portal.nousresearch.com"
MODELS_URL = "https://inference-api.nousresearch.com/v1"

_CLIENT = "hermes-cli"
_INVOKE = "inference:invoke"
"""With this scope the access token itself signs requests to models."""
_MINT = "inference:mint_agent_key"
"""With only this scope, as in older logins, the access token creates keys that sign them."""
_SCOPE = f"{_INVOKE} {_MINT}"
_TOKEN_S = 900.0
_KEY_S = 30 * 60
"""Minimum lifetime of a new key."""


class NousPortal(Issuer):
    """Logins at Nous Portal."""

    name = "nous"
    entry = "nous"

    async def begin(self) -> PendingDeviceCode:
        answer = await self._server.form(
            "/api/oauth/device/code", {"client_id": _CLIENT, "scope": _SCOPE}
        )
        told = answer.body
        url = text(told.get("verification_uri_complete")) or text(told.get("verification_uri"))
        return self._asked(answer, url, text(told.get("device_code")))

    async def poll(self, asked: PendingDeviceCode) -> Login | Wait:
        grant = "urn:ietf:params:oauth:grant-type:device_code"
        answer = await self._server.form(
            "/api/oauth/token",
            {"grant_type": grant, "client_id": _CLIENT, "device_code": asked.secret},
        )
        if answer.ok:
            return self._granted(answer, Login(Token(), scope=_SCOPE))
        return self._waits(answer, is_pending=answer.code == "authorization_pending")

    async def renewals(self, login: Login, *, refused: bool) -> AsyncGenerator[Login]:
        """Yields a new access token if due, then a new key if needed."""
        now = self._clock.now()
        is_new = refused or not login.access.good_at(now)
        if is_new:
            login = await self._refreshed(login)
            yield login
        if not login.wants_key or login.key.good_at(now):
            return
        try:
            login = await self._with_key(login)
        except LoginNeeded:
            if is_new:
                raise
            login = await self._refreshed(login)
            yield login
            login = await self._with_key(login)
        yield login

    async def revoke(self, login: Login) -> bool:
        del login
        return False

    def read(self, entry: Mapping[str, Any]) -> Login | None:
        access, refresh = text(entry.get("access_token")), text(entry.get("refresh_token"))
        if not (access or refresh):
            return None
        scope = text(entry.get("scope")) or _MINT
        key = SecretStr(text(entry.get("agent_key")))
        return Login(
            access=Token(SecretStr(access), moment(entry.get("expires_at")) or end_of(access)),
            refresh=SecretStr(refresh),
            scope=scope,
            key=Token(key, moment(entry.get("agent_key_expires_at"))),
            wants_key=not _may_invoke(scope, access),
            base_url=_models_url(entry) or MODELS_URL,
        )

    def add_login(self, login: Login, entry: Mapping[str, Any], now: datetime) -> dict[str, Any]:
        return {
            **entry,
            "portal_base_url": self._url,
            "inference_base_url": login.base_url,
            "client_id": _CLIENT,
            "scope": login.scope,
            "token_type": "Bearer",
            "access_token": login.access.value.get_secret_value(),
            "refresh_token": login.refresh.get_secret_value(),
            "obtained_at": now.isoformat(),
            "expires_at": _iso(login.access.expires_at),
            "agent_key": login.key.value.get_secret_value() or None,
            "agent_key_expires_at": _iso(login.key.expires_at),
        }

    async def _refreshed(self, login: Login) -> Login:
        self._check_renewable(login)
        # The portal expects it as a header, since form data may be logged.
        answer = await self._server.form(
            "/api/oauth/token",
            {"grant_type": "refresh_token", "client_id": _CLIENT},
            {"x-nous-refresh-token": login.refresh},
        )
        return self._granted(answer, login)

    def _granted(self, answer: Answer, before: Login) -> Login:
        login, told = super()._granted(answer, before), answer.body
        scope, access = text(told.get("scope")) or before.scope, login.access.value
        return replace(
            login,
            access=Token(access, self._after(told, _TOKEN_S)),
            key=Token(),
            wants_key=not _may_invoke(scope, access.get_secret_value()),
            scope=scope,
            base_url=_models_url(told) or before.base_url or MODELS_URL,
        )

    async def _with_key(self, login: Login) -> Login:
        answer = await self._server.json(
            "/api/oauth/agent-key", {"min_ttl_seconds": _KEY_S}, login.access.value
        )
        told = self._accepted(answer)
        key = text(told.get("api_key"))
        if not key:
            raise LoginFailed(f"{self._title} answered without a key")
        ends = moment(told.get("expires_at")) or self._after(told, _KEY_S)
        base_url = _models_url(told) or login.base_url
        return replace(login, key=Token(SecretStr(key), ends), base_url=base_url)


def _models_url(told: Mapping[str, Any]) -> str:
    """The portal's URL for models; empty if it is not safe for tokens."""
    url = text(told.get("inference_base_url")).rstrip("/")
    return url if fit_for_tokens(url) else ""


def _may_invoke(scope: str, access: str) -> bool:
    """Whether an access token signs requests itself; its claims win over the stated scope."""
    said = claims(access).get("scope")
    return _INVOKE in (said if isinstance(said, list) else (text(said) or scope).split())


def _iso(when: datetime | None) -> str | None:
    return None if when is None else when.isoformat()
