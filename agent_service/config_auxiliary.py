"""The agent's settings of the models that work beside conversations."""

from collections.abc import Callable, Mapping
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, ConfigDict, model_validator

from agent_service.config_fallback import Fallback, checked_url, endpoint_settings, key_variable
from agent_service.models.endpoints import EndpointSettings
from agent_service.models.fallback import Route
from services.config import ConfigModel

SAME = frozenset({"", "auto", "main"})
"""What `provider` says where the task's model is at the endpoint of conversations."""


class AuxiliaryModel(ConfigModel):
    """The model of one task."""

    model_config = ConfigDict(extra="ignore")  # homes have more to say of each than is read here

    model: str = ""
    """Its id at the endpoint; empty is the one of the conversation."""
    provider: str = ""
    """Whose endpoint and key; with `base_url` only a name."""
    base_url: Annotated[str, AfterValidator(checked_url)] = ""
    """Base URL of any endpoint that speaks like OpenAI's or Anthropic's."""
    api: Literal["", "chat_completions", "anthropic_messages", "responses"] = ""
    """What `base_url` speaks; empty goes by the URL."""
    key_env: Annotated[str, AfterValidator(key_variable)] = ""
    """Name of the environment variable, or line of `.env`, that has the key for `base_url`."""

    @model_validator(mode="after")
    def _has_model(self) -> Self:
        if self.is_elsewhere and not self.model:
            raise ValueError("names another endpoint, and needs the model's id there, too")
        return self

    @property
    def is_elsewhere(self) -> bool:
        """Whether it has an endpoint of its own."""
        return bool(self.base_url) or self.provider not in SAME

    @property
    def is_chosen(self) -> bool:
        """Whether somebody has said which model it is; `provider: main` says the conversation's."""
        return bool(self.model) or self.provider == "main"


def route_of(configured: Mapping[str, AuxiliaryModel], task: str) -> Route:
    """How the model of a task is reached; without a model in it, it is the conversation's."""
    one = configured.get(task, AuxiliaryModel())
    return Route(f"auxiliary.{task}" if one.is_elsewhere else "", one.model)


def auxiliaries(
    configured: Mapping[str, AuxiliaryModel], main: EndpointSettings, variable: Callable[[str], str]
) -> list[Fallback]:
    """The models that have endpoints of their own; `variable` reads the environment or `.env`."""
    return [
        Fallback(
            route_of(configured, task),
            endpoint_settings(one, main, variable),
            one.key_env or (f"auxiliary.{task}.key_env" if one.base_url else ""),
            f"No endpoint for {one.model} is set: auxiliary.{task} needs a provider whose key is "
            "set, or base_url.",
        )
        for task, one in configured.items()
        if one.is_elsewhere
    ]
