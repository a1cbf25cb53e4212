"""Models and a home that the tests of the configuration share."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, Field, SecretStr, field_validator

from services.config.settings import ConfigModel, Env, Flag, Settings, Yaml, load_settings, section


@section("agent", variables="HERMES_")
class LoopConfig(ConfigModel):
    """A sample with one field of each kind."""

    max_turns: Annotated[int, Field(ge=1, le=1000), Flag("turns")] = 90
    """Model calls in one turn."""
    model: Annotated[
        str | None, Yaml("model.default", "model"), Env("HERMES_MODEL", "LLM_MODEL"), Flag("model")
    ] = None
    """The model's name."""
    mode: Annotated[Literal["manual", "smart", "off"], Yaml("approvals.mode"), Env()] = "off"
    """Who is asked."""
    stream: Annotated[bool, Yaml("streaming.enabled"), Env("HERMES_STREAM")] = True
    """Whether answers are shown as they come."""
    allowed: Annotated[tuple[str, ...], Env("ALLOWED_USERS")] = ()
    """Who may write."""
    api_key: Annotated[SecretStr | None, Yaml("model.api_key"), Env("MODEL_API_KEY")] = None
    """The key of the endpoint."""

    @field_validator("api_key")
    @classmethod
    def _long_enough(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and len(value.get_secret_value()) < 12:
            raise ValueError(f"{value.get_secret_value()} is too short for a key")
        return value


class Provider(BaseModel):
    """One of the endpoints by name."""

    base_url: str
    timeout_s: float = 60
    api_key: SecretStr | None = None


class TerminalConfig(ConfigModel):
    """A sample that is nested in another."""

    backend: Annotated[str | None, Yaml("terminal.backend"), Env("HERMES_BACKEND")] = None
    """The sandbox backend."""
    timeout_s: Annotated[float, Field(gt=0), Yaml("terminal.timeout")] = 180
    """Seconds that a command may take."""


class AgentConfig(ConfigModel):
    """A sample with nested models."""

    terminal: TerminalConfig
    providers: Annotated[dict[str, Provider], Yaml("providers"), Env("HERMES_PROVIDERS")] = Field(
        default_factory=dict[str, Provider]
    )
    """Endpoints by name."""
    workers: Annotated[int, Yaml("executor.workers")] = 2
    """Something in a group of our own."""


MODELS = (LoopConfig, AgentConfig)


def settings(
    home: Path,
    yaml: str = "",
    *,
    env_file: str = "",
    environ: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
) -> Settings:
    """Write a home and read it."""
    if yaml:
        (home / "config.yaml").write_text(yaml)
    if env_file:
        (home / ".env").write_text(env_file)
    return load_settings(flags or {}, {"HERMES_HOME": str(home), **(environ or {})})
