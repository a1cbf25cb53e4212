"""Slack's check for `hermes doctor`."""

from gateway_service.errors import AccountRefused, PlatformError
from gateway_service.platforms.slack.api import SlackApi
from gateway_service.platforms.slack.config import SlackConfig
from services.runtime.checks import Check, Verdict


async def check_slack(config: SlackConfig) -> Check:
    """Ask Slack whether it knows the tokens."""
    api = SlackApi(config)
    try:
        await api.connect()
        found = await api.call("auth_test")
        if config.app_token.get_secret_value():
            await api.socket_url()
    except AccountRefused as error:
        text = f"{error.message}: SLACK_BOT_TOKEN and SLACK_APP_TOKEN"
        return Check("slack", Verdict.FAILED, text)
    except PlatformError as error:
        return Check("slack", Verdict.FAILED, error.message)
    finally:
        await api.close()
    return Check("slack", Verdict.OK, f"@{found['user']} in {found['team']}")
