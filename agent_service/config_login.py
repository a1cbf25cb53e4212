"""The agent's settings of providers at which one logs in."""

from typing import Annotated

from pydantic import AfterValidator, SecretStr

from agent_service.oauth import codex, nous
from agent_service.oauth.http import fit_for_tokens
from agent_service.oauth.issuer import Issuer
from services.clock import Clock
from services.config import ConfigModel, Env, Yaml

SHORTEST_KEY = 32


def _url(text: str) -> str:
    url = text.strip().rstrip("/")
    if not fit_for_tokens(url):
        # It is not repeated, as it may hold a password.
        raise ValueError("is not a URL that tokens may be sent to: it must begin with https://")
    return url


def _long(key: SecretStr) -> SecretStr:
    if 0 < len(key) < SHORTEST_KEY:
        raise ValueError(f"is too short: it has at least {SHORTEST_KEY} characters")
    return key


Url = Annotated[str, AfterValidator(_url)]


class LoginConfig(ConfigModel):
    """Where one logs in, and where the models of a login are."""

    nous_portal_url: Annotated[
        Url, Yaml("model.nous_portal_url"), Env("HERMES_NOUS_PORTAL_URL")
    ] = nous.PORTAL_URL
    """Nous Portal, for `hermes login nous`; it says itself where its models are."""
    codex_auth_url: Annotated[Url, Yaml("model.codex_auth_url"), Env("HERMES_CODEX_AUTH_URL")] = (
        codex.AUTH_URL
    )
    """Where `hermes login codex` logs in."""
    codex_base_url: Annotated[Url, Yaml("model.codex_base_url"), Env("HERMES_CODEX_BASE_URL")] = (
        codex.MODELS_URL
    )
    """Where the models of that login are, spoken to by the Responses API."""

    shared_key: Annotated[SecretStr, AfterValidator(_long), Env("HERMES_LOGIN_KEY")] = SecretStr("")
    """A secret of at least 32 characters, with which logins are sealed in the agent's PostgreSQL
    for replicas that share no disk; empty keeps them in `auth.json` of the home."""

    @property
    def is_shared(self) -> bool:
        """Whether all replicas share the logins."""
        return bool(self.shared_key.get_secret_value())

    def issuer(self, name: str, clock: Clock) -> Issuer:
        """The provider of that name."""
        if name == "nous":
            return nous.NousPortal(clock, self.nous_portal_url)
        return codex.OpenAICodex(clock, self.codex_auth_url)
