"""OpenAI Codex logins: a confirmed code is exchanged for tokens of a subscription."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

from msgspec.structs import replace
from pydantic import SecretStr

from agent_service.models.oauth.http import Answer, Fields
from agent_service.models.oauth.issuer import Issuer, PendingDeviceCode, Wait
from agent_service.models.oauth.tokens import (
    Login,
    LoginFailed,
    LoginUnavailable,
    Token,
    claims,
    end_of,
    text,
)
from services.validation import object_of

AUTH_URL = "https://auth.openai.com"
MODELS_URL = "https://chatgpt.com/backend-api/codex"

_CLIENT = "app_EMoamEEZ73f0CkXaXp7hrann"
_EXCHANGES = 3
"""Attempts to exchange a confirmed code, which the provider sends only once."""
_OWN_CLAIMS = "https://api.openai.com/auth"
_ACCOUNT = "ChatGPT-Account-Id"


class OpenAICodex(Issuer):
    """Logins with a ChatGPT subscription."""

    name = "codex"
    entry = "openai-codex"

    async def begin(self) -> PendingDeviceCode:
        answer = await self._server.json(
            "/api/accounts/deviceauth/usercode", {"client_id": _CLIENT}
        )
        if answer.status == 404:
            raise LoginFailed(
                f"{self._title} gives no device codes to this account: allow them in the security "
                "settings of ChatGPT"
            )
        secret = text(answer.body.get("device_auth_id"))
        return self._asked(answer, self._server.url("/codex/device"), secret)

    async def poll(self, asked: PendingDeviceCode) -> Login | Wait:
        answer = await self._server.json(
            "/api/accounts/deviceauth/token",
            {"device_auth_id": asked.secret, "user_code": asked.shown.user_code},
        )
        if answer.ok:
            return await self._exchanged(answer)
        return self._waits(answer, is_pending=answer.status in {403, 404})

    async def renewals(self, login: Login, *, refused: bool) -> AsyncGenerator[Login]:
        if not refused and login.access.good_at(self._clock.now()):
            return
        self._check_renewable(login)
        answer = await self._server.json(
            "/oauth/token",
            {"client_id": _CLIENT, "grant_type": "refresh_token", "refresh_token": login.refresh},
        )
        yield self._granted(answer, login)

    async def revoke(self, login: Login) -> bool:
        if not login.renewable:
            return False
        told = {"token": login.refresh, "token_type_hint": "refresh_token", "client_id": _CLIENT}
        try:
            return (await self._server.json("/oauth/revoke", told)).ok
        except LoginUnavailable:
            return False

    def read(self, entry: Mapping[str, Any]) -> Login | None:
        tokens = object_of(entry.get("tokens"))
        access, refresh = text(tokens.get("access_token")), text(tokens.get("refresh_token"))
        if not (access or refresh):
            return None
        account = text(tokens.get("account_id")) or _account(access)
        token = Token(SecretStr(access), end_of(access))
        return Login(token, SecretStr(refresh), headers=_headers(account))

    def add_login(self, login: Login, entry: Mapping[str, Any], now: datetime) -> dict[str, Any]:
        tokens = {
            **object_of(entry.get("tokens")),
            "access_token": login.access.value.get_secret_value(),
            "refresh_token": login.refresh.get_secret_value(),
            "account_id": login.headers.get(_ACCOUNT),
        }
        last_refresh = now.isoformat().replace("+00:00", "Z")
        return {**entry, "tokens": tokens, "last_refresh": last_refresh, "auth_mode": "chatgpt"}

    async def _exchanged(self, confirmed: Answer) -> Login:
        told = confirmed.body
        fields: Fields = {
            "grant_type": "authorization_code",
            "code": SecretStr(text(told.get("authorization_code"))),
            "redirect_uri": self._server.url("/deviceauth/callback"),
            "client_id": _CLIENT,
            "code_verifier": SecretStr(text(told.get("code_verifier"))),
        }
        for _ in range(_EXCHANGES - 1):
            with suppress(LoginUnavailable):
                answer = await self._server.form("/oauth/token", fields)
                return self._granted(answer, Login(Token()))
            await self._clock.sleep(1.0)
        return self._granted(await self._server.form("/oauth/token", fields), Login(Token()))

    def _granted(self, answer: Answer, before: Login) -> Login:
        login = super()._granted(answer, before)
        access = login.access.value.get_secret_value()
        account = _account(text(answer.body.get("id_token"))) or _account(access)
        token = Token(login.access.value, end_of(access))
        return replace(login, access=token, headers=_headers(account) or before.headers)


def _account(token: str) -> str:
    account = text(object_of(claims(token).get(_OWN_CLAIMS)).get("chatgpt_account_id"))
    return account if account.isascii() and account.isprintable() else ""


def _headers(account: str) -> dict[str, str]:
    return {_ACCOUNT: account} if account else {}
