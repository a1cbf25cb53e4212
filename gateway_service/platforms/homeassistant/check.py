"""Home Assistant's check for `hermes doctor`."""

from gateway_service.platforms.homeassistant.config import AUTOMATION, HomeAssistantConfig
from gateway_service.platforms.homeassistant.platform import HomeAssistantPlatform
from services.errors import HermesError
from services.runtime.checks import Check, Verdict


async def check_homeassistant(config: HomeAssistantConfig) -> Check:
    """Ask Home Assistant whether it accepts the token."""
    try:
        async with HomeAssistantPlatform(config) as platform:
            told = f"answers at {platform.account_id}"
    except HermesError as error:
        return Check(config.name, Verdict.FAILED, error.message)
    if config.watches and AUTOMATION not in config.allowed_users:
        told += f"; changes are not heard: add {AUTOMATION} to HASS_ALLOWED_USERS"
        return Check(config.name, Verdict.NOTE, told)
    return Check(config.name, Verdict.OK, told)
