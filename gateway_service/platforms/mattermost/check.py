"""Mattermost's check for `hermes doctor`."""

from gateway_service.errors import PlatformError
from gateway_service.platforms.mattermost.api import MattermostApi
from gateway_service.platforms.mattermost.config import MattermostConfig
from services.runtime.checks import Check, Verdict


async def check_mattermost(config: MattermostConfig) -> Check:
    """Ask the server whether it knows the token."""
    try:
        async with MattermostApi(config.url, config.token.get_secret_value()) as api:
            me = await api.get("/users/me")
    except PlatformError as error:
        return Check("mattermost", Verdict.FAILED, error.message)
    return Check("mattermost", Verdict.OK, f"@{me['username']}")
