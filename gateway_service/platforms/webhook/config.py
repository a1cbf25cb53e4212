"""Settings of webhooks: a route for each sender."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from gateway_service.platforms.config import PlatformConfig
from services.config.settings import Yaml, section

MIN_SECRET_CHARS = 16
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_TARGET = re.compile(r"(?!origin$|all$)[a-z]+(?::\S.*)?")


class Route(BaseModel):
    """What becomes of the events that come in under a name."""

    model_config = ConfigDict(coerce_numbers_to_str=True, extra="forbid", frozen=True)

    secret: SecretStr = SecretStr("")
    events: tuple[str, ...] = ()
    prompt: str = ""
    skills: Annotated[tuple[str, ...], Field(max_length=1)] = ()
    deliver: str = "log"
    deliver_extra: Mapping[str, str] = Field(default_factory=dict[str, str])

    @property
    def target(self) -> str:
        extra = (self.deliver_extra.get(name, "") for name in ("chat_id", "thread_id"))
        return ":".join(filter(None, (self.deliver, *extra)))

    @model_validator(mode="after")
    def _has_target(self) -> "Route":
        if not _TARGET.fullmatch(self.target):
            raise ValueError("deliver must be a target such as telegram:12345, home or log")
        return self


@section("platforms.webhook.extra", variables="WEBHOOK_")
class WebhookConfig(PlatformConfig):
    """Events that other programs send to the gateway's HTTP port."""

    name: ClassVar[str] = "webhook"
    needs: ClassVar[str] = "platforms.webhook.extra.routes"
    credentials: ClassVar[tuple[str, ...]] = ("routes",)

    secret: Annotated[SecretStr, Yaml(".secret")] = SecretStr("")
    """The secret of routes that have none of their own; at least 16 characters."""
    routes: Annotated[dict[str, Route], Yaml(".routes")] = Field(default_factory=dict[str, Route])
    """Routes by name, with `secret`, `events`, `prompt`, `skills` and `deliver`."""
    rate_limit: Annotated[int, Field(ge=1, le=6000)] = 30
    """How many events a route takes in a minute."""

    def secret_of(self, route: Route) -> str:
        return route.secret.get_secret_value() or self.secret.get_secret_value()

    @model_validator(mode="before")
    @classmethod
    def _only_routes(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Let in the routes, which are programs; none of them is an admin."""
        return {**values, "allowed_users": [*values.get("routes", ())], "admins": ["-"]}

    @model_validator(mode="after")
    def _is_complete(self) -> "WebhookConfig":
        for name, route in self.routes.items():
            if not _NAME.fullmatch(name):
                raise ValueError(f"the route {name!r} needs a name of a-z, 0-9, - and _")
            if len(self.secret_of(route)) < MIN_SECRET_CHARS:
                raise ValueError(
                    f"the route {name} needs a secret of at least {MIN_SECRET_CHARS} characters"
                )
        return self
