"""The settings of the gateway's HTTP port."""

from typing import Annotated, Literal

from pydantic import Field, SecretStr, model_validator

from services.config.settings import ConfigModel, Env, Yaml, section
from services.errors import NotFound
from services.home.paths import DEFAULT_PROFILE

ANY = "*"
LOOPBACK = ("127.0.0.1", "::1", "localhost")
MIN_KEY_CHARS = 16


@section("platforms.api_server.extra", variables="API_SERVER_")
class ApiConfig(ConfigModel):
    """The HTTP port of the gateway: an API for OpenAI's clients, and the webhooks of platforms."""

    enabled: Annotated[bool | None, Yaml("platforms.api_server.enabled")] = None
    """Whether to serve the API; if unset, it is served if it has a key."""
    key: Annotated[SecretStr, Yaml("platforms.api_server.extra.key"), Env("API_SERVER_KEY")] = (
        SecretStr("")
    )
    """The key that clients send, at least 16 characters if other machines can reach the port."""
    allow_without_key: bool = False
    """Serve everybody on this machine without a key; only on a loopback address."""
    host: str = "127.0.0.1"
    """The address that HTTP requests are served on."""
    port: Annotated[int, Field(ge=0, le=65_535)] = 8642
    """The TCP port; 0 lets the system choose one."""
    public_url: str = ""
    """The URL under which platforms reach the port from the internet, such as
    `https://hermes.example.org`; some sign it. Empty means the one that they ask for."""
    cors_origins: tuple[str, ...] = ()
    """Origins whose pages may use the API from a browser, such as `http://localhost:3000`."""
    model_name: str = ""
    """The name of the agent among the models; empty means `hermes`, or the profile's name."""
    models: tuple[str, ...] = ()
    """Models of the provider that clients may ask for instead of the agent's own; `*` means any."""
    approvals: Literal["deny", "allow"] = "deny"
    """What happens to calls that need a person's approval: `deny` refuses them, `allow` runs
    them. Runs (`/v1/runs`) ask their client."""
    max_requests: Annotated[int, Field(ge=1, le=10_000)] = 128
    """Requests that are served at the same time; more are refused with status 429."""

    mcp_read_key: SecretStr = SecretStr("")
    """The key for tools of the MCP server (`/mcp`) that only read. Without a key, a tier is not
    served; each needs one of its own, of at least 16 characters."""
    mcp_operate_key: SecretStr = SecretStr("")
    """The key for tools that also give tasks to Hermes, send messages and run jobs."""
    mcp_own_key: SecretStr = SecretStr("")
    """The key for all tools: they also decide approvals, and change memory, jobs and sessions."""

    @property
    def mcp_keys(self) -> dict[str, str]:
        """The keys of the MCP server's tiers that have one."""
        keys = {"read": self.mcp_read_key, "operate": self.mcp_operate_key, "own": self.mcp_own_key}
        return {tier: key.get_secret_value() for tier, key in keys.items() if key}

    @property
    def is_on(self) -> bool:
        return bool(self.key.get_secret_value()) if self.enabled is None else self.enabled

    @property
    def is_local(self) -> bool:
        return self.host in LOOPBACK

    def name_for(self, profile: str) -> str:
        return self.model_name or ("hermes" if profile == DEFAULT_PROFILE else profile)

    def models_for(self, profile: str) -> list[str]:
        return [self.name_for(profile), *(name for name in self.models if name != ANY)]

    def find_model(self, profile: str, wanted: str) -> str:
        """Return the model to ask the agent for, empty for its own; raises NotFound."""
        if wanted in ("", self.name_for(profile)):
            return ""
        if wanted in self.models or ANY in self.models:
            return wanted
        known = ", ".join(self.models_for(profile))
        raise NotFound(
            f"there is no model {wanted!r}; there is {known}",
            fields={"model": known},
            metadata={"code": "model_not_found"},
        )

    @model_validator(mode="after")
    def _has_key(self) -> "ApiConfig":
        key = self.key.get_secret_value()
        if self.is_on and not key and not self.allow_without_key:
            raise ValueError("platforms.api_server is enabled; set API_SERVER_KEY for it")
        if self.is_on and not key and not self.is_local:
            raise ValueError("without API_SERVER_KEY, the host must be a loopback address")
        if self.is_on and not key and self.public_url:
            raise ValueError("without API_SERVER_KEY, API_SERVER_PUBLIC_URL must be empty")
        keys = [*self.mcp_keys.values()]
        if any(len(each) < MIN_KEY_CHARS for each in keys):
            raise ValueError(
                f"keys of the MCP server must have at least {MIN_KEY_CHARS} characters"
            )
        if len({key, *keys}) <= len(keys):
            raise ValueError("each tier of the MCP server needs a key of its own")
        if key and len(key) < MIN_KEY_CHARS and not self.is_local:
            raise ValueError(f"API_SERVER_KEY must have at least {MIN_KEY_CHARS} characters")
        return self
