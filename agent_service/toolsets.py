"""Which toolsets a turn gets: those asked for, without those that are off."""

from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

from services.config_paths import nearest, suggestion

TOOLSETS = (
    *("terminal", "file", "web", "browser", "vision", "tts", "transcription", "image_gen"),
    *("memory", "skills", "delegation", "code_execution", "cron", "messaging", "clarify"),
    *("session", "todo", "mixture", "mcp", "honcho", "homeassistant", "rl"),
)
"""The ids of all toolsets, also of those that nothing belongs to yet."""

FOR_JOBS = tuple(name for name in TOOLSETS if name not in {"cron", "messaging", "clarify"})
"""What the runs of jobs get that ask for nothing: no jobs of their own, and nobody to talk to."""

NOTHING = ("none",)
"""No toolset; an empty list would be all of them."""


class Lists(Struct, frozen=True):
    """By profile and by platform, toolsets of which something holds there."""

    profiles: Mapping[str, Collection[str]] = {}
    platforms: Mapping[str, Collection[str]] = {}


class ToolsetPolicy:
    """What is off: everywhere, in a profile, on a platform, or as something else alone is on."""

    def __init__(
        self, everywhere: Collection[str], off: Lists | None = None, only: Lists | None = None
    ) -> None:
        """`only` has all that is on, where it says anything; `off` goes before it."""
        self._everywhere = frozenset(everywhere)
        self._off = off or Lists()
        self._only = only or Lists()

    def why_off(self, toolset: str, profile: str, platform: str = "") -> str:
        """What turned a toolset off; empty when nothing has."""
        if toolset in self._everywhere:
            return "turned off"
        if toolset in self._off.profiles.get(profile, ()):
            return f"turned off in the profile {profile}"
        if toolset in self._off.platforms.get(platform, ()):
            return f"turned off on {platform}"
        if toolset not in self._only.profiles.get(profile, TOOLSETS):
            return f"not among those that the profile {profile} has"
        if toolset not in self._only.platforms.get(platform, TOOLSETS):
            return f"not among those that {platform} has"
        return ""

    def platforms(self) -> Sequence[str]:
        """The platforms on which something may be off that is on elsewhere."""
        return sorted({*self._off.platforms, *self._only.platforms})

    def of(self, profile: str, platform: str, wanted: tuple[str, ...]) -> tuple[str, ...]:
        """What a turn gets that asks for some toolsets, or for all; empty means all."""
        asked = wanted or TOOLSETS
        left = tuple(name for name in asked if not self.why_off(name, profile, platform))
        return wanted if len(left) == len(asked) else left or NOTHING


def known_toolset(name: str) -> str:
    """The id itself; ValueError names the nearest one where there is none such."""
    if name not in TOOLSETS:
        raise ValueError(f"{name!r} is no toolset{suggestion(nearest(name, TOOLSETS))}")
    return name
