"""Which toolsets there are."""

from services.config.paths import nearest, suggestion

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


def known_toolset(name: str) -> str:
    """The id itself; ValueError names the nearest one where there is none such."""
    if name not in TOOLSETS:
        raise ValueError(f"{name!r} is no toolset{suggestion(nearest(name, TOOLSETS))}")
    return name
