"""The gateway's checks for `hermes doctor`."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from importlib.util import find_spec
from typing import Any

from gateway_service.chats.hooks.hooks import Hook, read_hooks
from gateway_service.config import GatewayConfig
from gateway_service.platforms.api_check import check_api
from gateway_service.platforms.config import PlatformConfig
from gateway_service.platforms.discord.check import check_discord
from gateway_service.platforms.email.check import check_email
from gateway_service.platforms.homeassistant.check import check_homeassistant
from gateway_service.platforms.matrix.check import check_matrix
from gateway_service.platforms.mattermost.check import check_mattermost
from gateway_service.platforms.signal.check import check_signal
from gateway_service.platforms.slack.check import check_slack
from gateway_service.platforms.sms.check import check_sms
from gateway_service.platforms.telegram.check import check_telegram
from gateway_service.platforms.webhook.check import check_webhook
from gateway_service.platforms.whatsapp.check import check_whatsapp
from services.config.settings import Settings
from services.runtime.checks import Check, Verdict

CHECKS: Mapping[str, Callable[[Any], Awaitable[Check]]] = {
    "discord": check_discord,
    "matrix": check_matrix,
    "mattermost": check_mattermost,
    "signal": check_signal,
    "slack": check_slack,
    "email": check_email,
    "homeassistant": check_homeassistant,
    "sms": check_sms,
    "telegram": check_telegram,
    "webhook": check_webhook,
    "whatsapp": check_whatsapp,
}
"""By platform: asks it whether it knows the account."""


async def checks(settings: Settings) -> list[Check]:
    """Check the HTTP API, the configured platforms and the hooks."""
    config = settings.load(GatewayConfig)
    used = [each for each in config.platforms if each.is_on]
    http = [await check_api(config.api)] if config.api.is_on else []
    begun = [each for each in config.platforms if each not in used and _lacks_some(each, settings)]
    incomplete = [Check(each.name, Verdict.NOTE, f"off; it needs {each.needs}") for each in begun]
    if not used and not http and not incomplete:
        text = "all off; `hermes setup` connects one, such as Telegram"
        return [Check("platforms", Verdict.NOTE, text)]
    platforms = [await _check(each, anybody=config.allow_all_users) for each in used]
    hooks = await asyncio.to_thread(read_hooks, settings.home.hooks)
    return [*http, *platforms, *incomplete, *(_check_hook(hook) for hook in hooks if hook.problem)]


def _lacks_some(config: PlatformConfig, settings: Settings) -> bool:
    """Return whether somebody has begun to configure a platform."""
    if config.enabled is not None:
        return False
    return any(
        settings.variable(name) or settings.secret_file(name) for name in config.variables_needed
    )


def _check_hook(hook: Hook) -> Check:
    return Check("hooks", Verdict.NOTE, f"{hook.name} is not used: {hook.problem}")


async def _check(config: PlatformConfig, *, anybody: bool) -> Check:
    name = config.name
    if config.package and find_spec(config.package) is None:
        text = f"its package is missing; install hermes-services[{name}]"
        return Check(name, Verdict.FAILED, text)
    found = await CHECKS[name](config)
    if found.verdict is not Verdict.OK:
        return found
    if anybody or config.allow_all_users:
        text = f"{found.message}; everybody may talk to it and run its commands"
        return Check(name, Verdict.NOTE, text)
    if not config.allowed_users:
        text = f"{found.message}, but nobody may talk to it; set {config.variables}ALLOWED_USERS"
        return Check(name, Verdict.NOTE, text)
    return found
