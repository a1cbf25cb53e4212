"""What the agent tells a command of a login at a model provider."""

from datetime import datetime

from msgspec import Struct

PROVIDERS = {"nous": "Nous Portal", "codex": "OpenAI Codex"}
"""Where one can log in, by the name that commands and settings have for it."""


class DeviceCode(Struct, frozen=True):
    """What a person has to confirm in a browser, on whatever device."""

    user_code: str
    url: str
    """The page that asks for the code, or has it in it already."""
    expires_at: datetime


class LoggedIn(Struct, frozen=True):
    """The login is kept."""

    place: str
    """The file that it is in, or else where it is in words."""
    expires_at: datetime | None
    """Until when it serves as it is; it is renewed by itself. None where nobody says."""
    configured: str
    """Whose models the settings choose; empty where they choose none."""


class LoggedOut(Struct, frozen=True):
    """The login is no longer kept."""

    was_there: bool
    revoked: bool
    """Whether the provider has confirmed that the login is of no more use to anybody."""
