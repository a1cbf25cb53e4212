"""What is sent beside a session's prompt, and is no part of it: instructions and first messages.

The prompt itself stays as it was built, to the byte. Instructions follow it in the same message, as
many servers take one only, so that a provider knows again what comes before them.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import asdict, replace

from agent_service.models.base import encoded

NO_PERSONALITY = "none"


class Said(Struct, frozen=True):
    """A message that every request of a session has before what was really said."""

    role: str
    """user or assistant."""
    content: str


class Overlay(Struct, frozen=True):
    """What the requests of a session have besides its prompt and its messages."""

    instructions: tuple[str, ...] = ()
    """From the configuration, of the chat, and from the caller that creates the session."""
    prefill: tuple[Said, ...] = ()
    personality: str = ""
    """The name of the one that a person has chosen."""
    personality_prompt: str = ""
    """What it says, as it was when it was chosen."""
    terminal_timeout_s: float = 0.0
    """That the tools of the session say is usual for commands; 0 where they say what is in them."""

    @classmethod
    def of(cls, stored: Mapping[str, Any] | None) -> "Overlay":
        """What is kept with a session."""
        if not stored:
            return NOTHING
        prefill = tuple(Said(**said) for said in stored["prefill"])
        instructions = tuple(stored["instructions"])
        return cls(
            instructions,
            prefill,
            stored["personality"],
            stored["personality_prompt"],
            stored.get("terminal_timeout_s", 0.0),
        )

    def stored(self) -> dict[str, Any]:
        """The same as it is kept with a session."""
        return to_builtins(self)

    def with_personality(self, name: str, prompt: str) -> "Overlay":
        """The same with another personality; empty texts are none."""
        return replace(self, personality=name, personality_prompt=prompt)

    def sent(self, messages: Sequence[bytes]) -> Sequence[bytes]:
        """A conversation, its prompt first, as it is sent."""
        if not (self.instructions or self.prefill or self.personality_prompt):
            return messages
        prompt: dict[str, Any] = json.loads(messages[0])
        texts = [prompt["content"], *self.instructions, self.personality_prompt]
        prompt["content"] = "\n\n".join(text.strip() for text in texts if text.strip())
        before = [encoded(asdict(said)) for said in self.prefill]
        return [encoded(prompt), *before, *messages[1:]]


NOTHING = Overlay()
