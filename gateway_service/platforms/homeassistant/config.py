"""Home Assistant's settings."""

from typing import Annotated, ClassVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr

from gateway_service.platforms.config import PlatformConfig
from services.config.settings import Env, Yaml, section

AUTOMATION = "homeassistant"
"""The user id of what no person did."""


def _url(text: str) -> str:
    url = text.strip().rstrip("/")
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise ValueError("is not a URL such as http://homeassistant.local:8123")
    return url


@section("platforms.homeassistant.extra", variables="HASS_")
class HomeAssistantConfig(PlatformConfig):
    """Home Assistant: changes of states, and notifications."""

    name: ClassVar[str] = "homeassistant"
    title: ClassVar[str] = "Home Assistant"
    steps: ClassVar[str] = (
        "In Home Assistant, open your profile as an administrator, and make a long-lived access "
        "token on the page Security."
    )
    programs: ClassVar[frozenset[str]] = frozenset({AUTOMATION})
    users: ClassVar[str] = "ids of users; homeassistant stands for automations and changes"
    needs: ClassVar[str] = "HASS_URL and HASS_TOKEN"

    token: Annotated[SecretStr, Yaml("..token"), Env("HASS_TOKEN")] = SecretStr("")
    """A long-lived access token of an administrator, from the security page of your profile."""
    url: Annotated[str, AfterValidator(_url), Env("HASS_URL")] = "http://homeassistant.local:8123"
    """URL of Home Assistant."""
    watch_entities: tuple[str, ...] = ()
    """Entities whose changes Hermes gets as messages, such as `binary_sensor.front_door`."""
    watch_domains: tuple[str, ...] = ()
    """Domains, such as `alarm_control_panel`; Hermes gets changes of all their entities."""
    watch_all: Annotated[bool, Yaml()] = False
    """Whether Hermes gets the changes of all entities."""
    ignore_entities: tuple[str, ...] = ()
    """Entities whose changes Hermes never gets."""
    cooldown_s: Annotated[
        float, Field(ge=0), Yaml(".cooldown_s", ".cooldown_seconds"), Env("HASS_COOLDOWN_S")
    ] = 30.0
    """Seconds after a change in which others of the same entity are passed over."""
    events_chat: str = "persistent_notification"
    """Where answers to changes go: `persistent_notification`, or a notify service such as
    `mobile_app_annas_phone`."""
    events_prompt: str = "This has changed at home. Say so if it matters, else answer [SILENT]."
    """What Hermes is told to do about a change."""

    @property
    def advice(self) -> str:
        if not self.watches or AUTOMATION in self.allowed_users:
            return ""
        return f"changes are not heard; add {AUTOMATION} to HASS_ALLOWED_USERS"

    @property
    def first_chat(self) -> str:
        return self.events_chat

    @property
    def watches(self) -> bool:
        return bool(self.watch_all or self.watch_domains or self.watch_entities)

    def is_watched(self, entity_id: str) -> bool:
        """Return whether the changes of an entity are messages."""
        if entity_id in self.ignore_entities:
            return False
        is_named = entity_id in self.watch_entities
        return self.watch_all or is_named or entity_id.partition(".")[0] in self.watch_domains
