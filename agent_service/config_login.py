"""The agent's settings of providers at which one logs in."""

from typing import Annotated

from pydantic import AfterValidator

from agent_service.oauth import codex, nous
from agent_service.oauth.http import fit_for_tokens
from agent_service.oauth.issuer import Issuer
from services.clock import Clock
from services.config import ConfigModel, Env, Yaml


def _url(text: str) -> str:
    url = text.strip().rstrip("/")
    if not fit_for_tokens(url):
        # It is not repeated, as it may hold a password.
        raise ValueError("is not a URL that tokens may be sent to: it must begin with https://")
    return url


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

    def issuer(self, name: str, clock: Clock) -> Issuer:
        """The provider of that name."""
        if name == "nous":
            return nous.NousPortal(clock, self.nous_portal_url)
        return codex.OpenAICodex(clock, self.codex_auth_url)
