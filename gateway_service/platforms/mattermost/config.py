"""Mattermost's settings."""

from typing import Annotated, ClassVar

from pydantic import SecretStr, model_validator

from gateway_service.platforms.config import PlatformConfig
from services.config.settings import Env, Yaml, section


@section("platforms.mattermost.extra", variables="MATTERMOST_")
class MattermostConfig(PlatformConfig):
    """The Mattermost bot, and who may talk to it."""

    name: ClassVar[str] = "mattermost"
    guide: ClassVar[str] = "matrix-mattermost.md#mattermost"
    steps: ClassVar[str] = (
        "In the System Console switch on bot accounts. Under Integrations add one with the role "
        "Member, copy its token, and add it to your team."
    )
    needs: ClassVar[str] = "MATTERMOST_URL and MATTERMOST_TOKEN"
    credentials: ClassVar[tuple[str, ...]] = ("url", "token")

    url: str = ""
    """The server's address, such as https://chat.example.com."""
    token: Annotated[
        SecretStr, Yaml("..token"), Env("MATTERMOST_TOKEN", "MATTERMOST_BOT_TOKEN")
    ] = SecretStr("")
    """The bot account's access token."""
    command_token: SecretStr = SecretStr("")
    """The token of a slash command of the server that calls `/webhooks/mattermost`."""

    @model_validator(mode="after")
    def _is_well_formed(self) -> "MattermostConfig":
        if self.url and not self.url.startswith(("http://", "https://")):
            raise ValueError("MATTERMOST_URL must begin with https:// or http://")
        return self
