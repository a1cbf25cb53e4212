"""The settings of what is sent beside a session's prompt."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from agent_service.prompt.overlays import NO_PERSONALITY, Overlay, Said
from agent_service.prompt.personalities import MAX_NAME_CHARS
from services.config import ConfigModel, Env, Yaml


def _personality_name(name: str) -> str:
    name = name.strip().lower()
    if not name.replace("-", "").replace("_", "").isalnum() or len(name) > MAX_NAME_CHARS:
        raise ValueError(f"{name!r} is no name of letters, digits, - and _")
    if name == NO_PERSONALITY:
        raise ValueError(f"{name!r} is what takes a personality away")
    return name


class PrefillMessage(ConfigModel):
    """A message that every request begins with."""

    role: Literal["user", "assistant"]
    """Who says it."""
    content: Annotated[str, Field(min_length=1)]
    """What is said."""


class OverlayConfig(ConfigModel):
    """What a new session's requests have besides its prompt and its messages, and keep."""

    ephemeral_system_prompt: Annotated[
        str, Yaml("agent.ephemeral_system_prompt"), Env("HERMES_EPHEMERAL_SYSTEM_PROMPT")
    ] = ""
    """Instructions that follow the system prompt of new sessions, and are no part of it."""
    prefill_messages: Annotated[
        tuple[PrefillMessage, ...], Field(max_length=50), Yaml("agent.prefill_messages")
    ] = ()
    """Messages, each with `role` (`user` or `assistant`) and `content`, that are sent before those
    of a new session, such as examples; they are neither shown nor found."""
    personalities: Annotated[
        dict[Annotated[str, AfterValidator(_personality_name)], str], Yaml("agent.personalities")
    ] = Field(default_factory=dict[str, str])
    """Ways to talk for `/personality`, by name: what the model is told. They come before ours of
    the same name."""

    @property
    def overlay(self) -> Overlay:
        """The same as sessions keep it."""
        told = (self.ephemeral_system_prompt,) if self.ephemeral_system_prompt.strip() else ()
        return Overlay(told, tuple(Said(said.role, said.content) for said in self.prefill_messages))
