"""Ways to talk that a person can choose for a session."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from services.config_paths import nearest, suggestion
from services.errors import InvalidArgument

MAX_NAME_CHARS = 40


class Personality(Struct, frozen=True):
    """One of them."""

    name: str
    prompt: str
    """What the model is told."""
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
    """Those that there are: the configured ones before our own of the same name."""

    def __init__(self, configured: Mapping[str, str]) -> None:
        ours = {name: Personality(name, text, is_built_in=True) for name, text in BUILT_IN.items()}
        theirs = {name: Personality(name, text) for name, text in configured.items()}
        self._all = ours | theirs

    def all(self) -> Sequence[Personality]:
        """All of them by name."""
        return sorted(self._all.values(), key=lambda one: one.name)

    def find(self, name: str) -> Personality:
        """The one of a name; InvalidArgument names the nearest where there is none such."""
        found = self._all.get(name.strip().lower())
        if found is None:
            hint = suggestion(nearest(name, tuple(self._all)))
            raise InvalidArgument(
                f"there is no personality {name!r}{hint}", fields={"name": "as they are listed"}
            )
        return found
