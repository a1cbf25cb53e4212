"""Slack's settings."""

from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import SecretStr, model_validator

from gateway_service.platforms.config import PlatformConfig
from services.config.settings import Env, Yaml, section


@section("platforms.slack.extra", variables="SLACK_")
class SlackConfig(PlatformConfig):
    """The Slack app, and who may talk to it."""

    name: ClassVar[str] = "slack"
    package: ClassVar[str] = "slack_sdk"
    steps: ClassVar[str] = (
        "At https://api.slack.com/apps make an app from the manifest below. Install it for the bot "
        "token (xoxb-…), and make an app-level token with connections:write (xapp-…)."
    )
    users: ClassVar[str] = "member ids"
    needs: ClassVar[str] = "SLACK_BOT_TOKEN and SLACK_APP_TOKEN"

    token: Annotated[SecretStr, Yaml("..token"), Env("SLACK_BOT_TOKEN")] = SecretStr("")
    """The app's bot token, xoxb-…, from its page OAuth & Permissions."""
    app_token: SecretStr = SecretStr("")
    """The app-level token, xapp-…, with which Hermes receives messages by Socket Mode."""
    signing_secret: SecretStr = SecretStr("")
    """The app's signing secret, for calls to `/webhooks/slack` instead of Socket Mode."""
    reply_in_thread: bool = True
    """Whether Hermes answers in a thread, which is a session of its own, when it is mentioned in a
    channel; else it answers in the channel."""
    base_url: str = "https://slack.com/api/"
    """The URL of Slack's Web API."""

    @property
    def manifest(self) -> str:
        return Path(__file__).with_name("manifest.yaml").read_text(encoding="utf-8")

    @model_validator(mode="after")
    def _is_well_formed(self) -> "SlackConfig":
        token, app_token = self.token.get_secret_value(), self.app_token.get_secret_value()
        if token and not token.startswith("xoxb-"):
            raise ValueError("SLACK_BOT_TOKEN must begin with xoxb-")
        if app_token and not app_token.startswith("xapp-"):
            raise ValueError("SLACK_APP_TOKEN must begin with xapp-")
        if self.is_on and not (app_token or self.signing_secret.get_secret_value()):
            raise ValueError("set SLACK_APP_TOKEN, or SLACK_SIGNING_SECRET if Slack calls Hermes")
        return self
