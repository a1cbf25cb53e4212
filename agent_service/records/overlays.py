"""What requests contain besides a session's prompt and messages: overlays and personalities."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import asdict, replace

from agent_service.records.mcp import NO_SERVERS, SessionServers
from agent_service.records.model import encoded
from services.config.paths import nearest, suggestion
from services.errors import InvalidArgument
from services.validation import convert

NO_PERSONALITY = "none"


class OverlayMessage(Struct, frozen=True):
    """A message that every request of a session has before its real messages."""

    role: str
    content: str


class Overlay(Struct, frozen=True):
    """What a session's requests contain besides its prompt and messages."""

    instructions: tuple[str, ...] = ()
    """From the configuration, the chat, and the caller that creates the session."""
    prefill: tuple[OverlayMessage, ...] = ()
    personality: str = ""
    personality_prompt: str = ""
    is_lean: bool = False
    """Whether the session has few tools, described in brief, for a model with little context."""
    servers: SessionServers = NO_SERVERS

    @classmethod
    def from_state(cls, stored: Mapping[str, Any] | None) -> "Overlay":
        return convert(stored, cls) if stored else NOTHING

    def stored(self) -> dict[str, Any]:
        return to_builtins(self)

    def with_personality(self, name: str, prompt: str) -> "Overlay":
        """Return the overlay with another personality; empty texts mean none."""
        return replace(self, personality=name, personality_prompt=prompt)

    def apply(self, messages: Sequence[bytes]) -> Sequence[bytes]:
        """Return a conversation, its prompt first, as it is sent."""
        if not (self.instructions or self.prefill or self.personality_prompt):
            return messages
        prompt: dict[str, Any] = json.loads(messages[0])
        texts = [prompt["content"], *self.instructions, self.personality_prompt]
        prompt["content"] = "\n\n".join(text.strip() for text in texts if text.strip())
        before = [encoded(asdict(said)) for said in self.prefill]
        return [encoded(prompt), *before, *messages[1:]]


NOTHING = Overlay()

MAX_NAME_CHARS = 40


class Personality(Struct, frozen=True):
    """A personality."""

    name: str
    prompt: str
    is_built_in: bool = False


BUILT_IN = {
    "brief": "Answer in as few words as the matter allows. No preamble, no summary, no offers.",
    "thorough": (
        "Take your time. Say what you assume, weigh the alternatives, give reasons and sources, "
        "and name what could still be wrong."
    ),
    "teacher": (
        "Teach. Begin with what the user knows already, go one step at a time with a small example "
        "for each, and ask now and then a question that shows whether it was understood."
    ),
    "critic": (
        "Look for what is weak in whatever is put before you: errors first, then risks, then what "
        "could be simpler. Say each of them plainly, with how to mend it. Do not praise."
    ),
    "coach": (
        "Be an encouraging coach. Ask what the user wants to reach, break it into a next step that "
        "is small enough for today, and name what has been achieved."
    ),
    "formal": "Write as in a business letter: whole sentences, courteous, no slang and no emoji.",
    "plain": (
        "Use everyday words and short sentences, as for somebody who has never worked in the field "
        "that the talk is about. Explain each technical term that cannot be avoided."
    ),
    "pirate": (
        "Talk like a pirate of the old stories, with good cheer. What you say stays correct, and "
        "code, commands and file names stay as they are."
    ),
}


class Personalities:
    """The available personalities; configured ones override built-in ones of the same name."""

    def __init__(self, configured: Mapping[str, str]) -> None:
        ours = {name: Personality(name, text, is_built_in=True) for name, text in BUILT_IN.items()}
        theirs = {name: Personality(name, text) for name, text in configured.items()}
        self._all = ours | theirs

    def all(self) -> Sequence[Personality]:
        return sorted(self._all.values(), key=lambda one: one.name)

    def find(self, name: str) -> Personality:
        """Return a personality by name; InvalidArgument names similar ones if there is none."""
        found = self._all.get(name.strip().lower())
        if found is None:
            hint = suggestion(nearest(name, tuple(self._all)))
            raise InvalidArgument(
                f"there is no personality {name!r}{hint}", fields={"name": "as they are listed"}
            )
        return found
