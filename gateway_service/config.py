"""The gateway's settings."""

from typing import Annotated

from pydantic import Field

from services.config import ConfigModel, Env, Yaml


class GatewayConfig(ConfigModel):
    """What the gateway service can be configured with."""

    lease_s: Annotated[
        float, Field(ge=3, le=300), Yaml("gateway.lease_s"), Env("HERMES_GATEWAY_LEASE_S")
    ] = 30.0
    """Seconds after which a replica that does not answer loses its chat accounts to another."""


MODELS: tuple[type[ConfigModel], ...] = (GatewayConfig,)
"""What `hermes config` shows of this service."""
