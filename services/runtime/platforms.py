"""The platforms that people and jobs talk from."""

from typing import Annotated

from services.config.fields import KeyNames

PLATFORMS = (
    "cli",
    "discord",
    "email",
    "homeassistant",
    "matrix",
    "mattermost",
    "signal",
    "slack",
    "sms",
    "telegram",
    "webhook",
    "whatsapp",
    "scheduler",
    "api_server",
)

PlatformName = Annotated[str, KeyNames(PLATFORMS)]
"""The key of settings by platform."""
