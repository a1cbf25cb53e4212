"""A conversation of a model with its tools, in no file format yet."""

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec
from msgspec import Struct

Role = Literal["user", "assistant", "tool"]


class Call(Struct, frozen=True):
    """A tool call of an assistant message."""

    id: str
    name: str
    arguments: str
    """As the model wrote them; JSON unless the model erred."""


class Message(Struct, frozen=True):
    """A message of a person, a model or a tool."""

    role: Role
    text: str
    reasoning: str = ""
    calls: Sequence[Call] = ()
    call_id: str = ""
    """The call that a tool's message answers."""
    logprobs: str = ""
    """A JSON list of the tokens of a model's message, each with token, logprob and id, or empty."""


class Facts(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a record says beside the conversation; a record has only what is known."""

    id: str = ""
    score: float | None = None
    """What a check gave, 0 to 1."""
    finish_reason: str = ""
    tags: Sequence[str] = ()
    toolsets: Sequence[str] = ()
    seed: int | None = None
    """With which the toolsets were sampled."""

    def facts(self) -> "Facts":
        """Return the facts alone, without what a record adds."""
        return Facts(**{name: getattr(self, name) for name in Facts.__struct_fields__})


class Trajectory(Struct, frozen=True):
    """A conversation and how it ended."""

    system_prompt: str
    tools: str
    """A JSON list."""
    messages: Sequence[Message]
    timestamp: str
    """ISO 8601."""
    model: str
    completed: bool
    """Whether it reached an answer."""
    facts: Facts = Facts()


def redact_trajectory(trajectory: Trajectory, redact: Callable[[str], str]) -> Trajectory:
    """Return a trajectory without secrets."""

    def clean(message: Message) -> Message:
        cleaned = msgspec.structs.replace(
            message,
            text=redact(message.text),
            reasoning=redact(message.reasoning),
            calls=tuple(Call(it.id, it.name, redact(it.arguments)) for it in message.calls),
        )
        if not message.logprobs or cleaned == message:
            return cleaned
        return msgspec.structs.replace(cleaned, logprobs="")  # a secret is in the tokens, too

    said = "\0".join(text for message in trajectory.messages for text in _texts(message))
    is_clean = redact(said) == said  # mostly, and seen faster in one text
    return msgspec.structs.replace(
        trajectory,
        system_prompt=redact(trajectory.system_prompt),
        tools=redact(trajectory.tools),
        messages=trajectory.messages if is_clean else list(map(clean, trajectory.messages)),
    )


def _texts(message: Message) -> Sequence[str]:
    return message.text, message.reasoning, *(call.arguments for call in message.calls)
