"""OpenAI Codex: a code that is confirmed in the browser, exchanged for tokens of a subscription."""

from collections.abc import AsyncGenerator, Mapping
from datetime import datetime, timedelta
from typing import Any, cast

from msgspec.structs import replace
from pydantic import SecretStr

from agent_service.oauth.http import Answer, Fields, LoginServer
from agent_service.oauth.issuer import Asked, Wait
from agent_service.oauth.issuer import refused as no
from agent_service.oauth.tokens import (
    Login,
    LoginFailed,
    LoginUnavailable,
    Token,
    claims,
    end_of,
    moment,
    seconds,
    text,
)
from services.clock import Clock
from services.logins import PROVIDERS, DeviceCode

AUTH_URL = "https://auth.openai.com"
MODELS_URL = "https://chatgpt.com/backend-api/codex"

_CLIENT = "app_EMoamEEZ73f0CkXaXp7hrann"
_CODE_S, _INTERVAL_S = 900.0, 5.0
_EXCHANGES = 3
"""How often a code that was confirmed is exchanged at most; it does not come a second time."""
_OWN_CLAIMS = "https://api.openai.com/auth"
_ACCOUNT = "ChatGPT-Account-Id"


class OpenAICodex:
    """Logins with a ChatGPT subscription."""

    name = "codex"
    entry = "openai-codex"

    def __init__(self, clock: Clock, auth_url: str = AUTH_URL) -> None:
        self._clock = clock
        self._server = LoginServer(PROVIDERS[self.name], auth_url)

    async def begin(self) -> Asked:
        """Ask for a code."""
        answer = await self._server.json(
            "/api/accounts/deviceauth/usercode", {"client_id": _CLIENT}
        )
        told = answer.body
        if answer.status == 404:
            raise LoginFailed(
                f"{PROVIDERS[self.name]} gives no device codes to this account: allow them in the "
                "security settings of ChatGPT"
            )
        if not answer.ok:
            raise no(self.name, answer)
        code = text(told.get("user_code")) or text(told.get("usercode"))
        secret = text(told.get("device_auth_id"))
        if not (code and secret):
            raise LoginFailed(f"{PROVIDERS[self.name]} gave no code that could be confirmed")
        usual = self._clock.now() + timedelta(seconds=seconds(told.get("expires_in"), _CODE_S))
        ends = moment(told.get("expires_at")) or usual
        shown = DeviceCode(code, self._server.url("/codex/device"), ends)
        return Asked(shown, SecretStr(secret), seconds(told.get("interval"), _INTERVAL_S))

    async def poll(self, asked: Asked) -> Login | Wait:
        """Ask whether the code has been confirmed, and exchange what comes of it."""
        answer = await self._server.json(
            "/api/accounts/deviceauth/token",
            {
                "device_auth_id": asked.secret,
                "user_code": asked.shown.user_code,
            },
        )
        if answer.ok:
            return await self._exchanged(answer)
        if "denied" in answer.code:
            raise LoginFailed("The login was refused in the browser")
        if "expired" in answer.code:
            raise LoginFailed("The code is no longer good: begin anew")
        if answer.code == "slow_down":
            return Wait.SLOWER
        if answer.status in {403, 404}:
            return Wait.PENDING
        raise no(self.name, answer)

    async def renewals(self, login: Login, *, refused: bool) -> AsyncGenerator[Login]:
        """A new access token."""
        if not refused and login.access.good_at(self._clock.now()):
            return
        if not login.renewable:
            raise no(self.name, Answer(401, {}))
        answer = await self._server.json(
            "/oauth/token",
            {"client_id": _CLIENT, "grant_type": "refresh_token", "refresh_token": login.refresh},
        )
        if not answer.ok:
            raise no(self.name, answer)
        yield self._granted(answer, login)

    async def revoke(self, login: Login) -> bool:
        """Tell OpenAI that the login is over."""
        if not login.renewable:
            return False
        told = {"token": login.refresh, "token_type_hint": "refresh_token", "client_id": _CLIENT}
        try:
            return (await self._server.json("/oauth/revoke", told)).ok
        except LoginUnavailable:
            return False

    def read(self, entry: Mapping[str, Any]) -> Login | None:
        """The login that auth.json has."""
        found = entry.get("tokens")
        tokens: Mapping[str, Any] = (
            cast("Mapping[str, Any]", found) if isinstance(found, dict) else {}
        )
        access, refresh = text(tokens.get("access_token")), text(tokens.get("refresh_token"))
        if not (access or refresh):
            return None
        account = text(tokens.get("account_id")) or _account(access)
        return Login(
            Token(SecretStr(access), end_of(access)), SecretStr(refresh), headers=_headers(account)
        )

    def written(self, login: Login, entry: Mapping[str, Any], now: datetime) -> dict[str, Any]:
        """The entry with the login in it."""
        found = entry.get("tokens")
        before: Mapping[str, Any] = (
            cast("Mapping[str, Any]", found) if isinstance(found, dict) else {}
        )
        tokens = {
            **before,
            "access_token": login.access.value.get_secret_value(),
            "refresh_token": login.refresh.get_secret_value(),
            "account_id": login.headers.get(_ACCOUNT),
        }
        last_refresh = now.isoformat().replace("+00:00", "Z")
        return {**entry, "tokens": tokens, "last_refresh": last_refresh, "auth_mode": "chatgpt"}

    async def _exchanged(self, confirmed: Answer) -> Login:
        told = confirmed.body
        fields = {
            "grant_type": "authorization_code",
            "code": SecretStr(text(told.get("authorization_code"))),
            "redirect_uri": self._server.url("/deviceauth/callback"),
            "client_id": _CLIENT,
            "code_verifier": SecretStr(text(told.get("code_verifier"))),
        }
        answer = await self._patiently("/oauth/token", fields)
        if not answer.ok:
            raise no(self.name, answer)
        return self._granted(answer, Login(Token()))

    async def _patiently(self, path: str, fields: Fields) -> Answer:
        for _ in range(_EXCHANGES - 1):
            try:
                return await self._server.form(path, fields)
            except LoginUnavailable:
                await self._clock.sleep(1.0)
        return await self._server.form(path, fields)

    def _granted(self, answer: Answer, before: Login) -> Login:
        access = text(answer.body.get("access_token"))
        refresh = text(answer.body.get("refresh_token"))
        if not access:
            raise LoginFailed(f"{PROVIDERS[self.name]} answered without a token")
        account = _account(text(answer.body.get("id_token"))) or _account(access)
        return replace(
            before,
            access=Token(SecretStr(access), end_of(access)),
            refresh=SecretStr(refresh) if refresh else before.refresh,
            headers=_headers(account) or before.headers,
        )


def _account(token: str) -> str:
    """Which of a person's ChatGPT accounts a token is for."""
    own = claims(token).get(_OWN_CLAIMS)
    if not isinstance(own, dict):
        return ""
    account = text(cast("Mapping[str, Any]", own).get("chatgpt_account_id"))
    return account if account.isascii() and account.isprintable() else ""


def _headers(account: str) -> dict[str, str]:
    return {_ACCOUNT: account} if account else {}
