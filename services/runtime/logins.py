"""The agent's answers about logins at model providers."""

from datetime import datetime

from msgspec import Struct

PROVIDERS = {"nous": "Nous Portal", "codex": "OpenAI Codex"}
"""The providers by their names in commands and settings."""


class DeviceCode(Struct, frozen=True):
    """The code to confirm in a browser on any device."""

    user_code: str
    url: str
    """The page that asks for the code or already contains it."""
    expires_at: datetime


class LoggedIn(Struct, frozen=True):
    """The login is stored."""

    place: str
    """The file with the login, or a description of the place."""
    expires_at: datetime | None
    """When the login expires unless renewed, which is automatic; None if unknown."""
    configured: str
    """The provider of the configured models, or empty."""


class LoggedOut(Struct, frozen=True):
    """The login was deleted."""

    was_there: bool
    revoked: bool
    """Whether the provider has confirmed the revocation."""
