"""Settings of when a chat begins a new session by itself."""

from datetime import timedelta, tzinfo
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from gateway_service.reset_policy import Mode, ResetPolicies, ResetPolicy
from services.config import ConfigModel, Yaml


def _word(given: object) -> object:
    return "none" if given in (None, False, "off") else given


ModeName = Annotated[Literal["none", "idle", "daily", "both"], BeforeValidator(_word)]
Hour = Annotated[int, Field(ge=0, le=23)]
Minutes = Annotated[int, Field(ge=1, le=525_600)]


class PlatformReset(ConfigModel):
    """What is different on one platform."""

    mode: ModeName | None = None
    """As `session_reset.mode`; unset is the same."""
    at_hour: Hour | None = None
    """As `session_reset.at_hour`; unset is the same."""
    idle_minutes: Minutes | None = None
    """As `session_reset.idle_minutes`; unset is the same."""


class SessionResetConfig(ConfigModel):
    """When a chat of a platform goes on in a new session."""

    mode: Annotated[ModeName, Yaml("session_reset.mode")] = "none"
    """`idle` after a time without messages, `daily` at an hour, `both` whichever comes first."""
    at_hour: Annotated[Hour, Yaml("session_reset.at_hour")] = 4
    """Hour of the day, 0 to 23, in `timezone`."""
    idle_minutes: Annotated[Minutes, Yaml("session_reset.idle_minutes")] = 1440
    """Minutes since the last message or answer."""
    platforms: Annotated[dict[str, PlatformReset], Yaml("session_reset.platforms")] = Field(
        default_factory=dict[str, PlatformReset]
    )
    """By platform, such as `telegram`, what is different there: `mode`, `at_hour` and
    `idle_minutes`."""
    review_on_new: Annotated[bool, Yaml("session_reset.review_on_new")] = False
    """Whether the agent looks back at a session for the last time also where `/new` ends it, as it
    does where a session ends by itself."""

    def policies(self, zone: tzinfo | None) -> ResetPolicies:
        """The same as chats are held to."""
        usual = ResetPolicy(
            Mode(self.mode), self.at_hour, timedelta(minutes=self.idle_minutes), zone
        )
        own = {
            name: ResetPolicy(
                Mode(one.mode or self.mode),
                self.at_hour if one.at_hour is None else one.at_hour,
                timedelta(minutes=one.idle_minutes or self.idle_minutes),
                zone,
            )
            for name, one in self.platforms.items()
        }
        return ResetPolicies(usual, own, reviews_on_new=self.review_on_new)
