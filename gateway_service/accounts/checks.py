"""The gateway's checks for `hermes doctor`."""

from importlib.util import find_spec

from gateway_service.config import GatewayConfig, TelegramConfig
from services.config.settings import Settings
from services.runtime.checks import Check, Verdict

CHECK_TIMEOUT_S = 5.0


async def checks(settings: Settings) -> list[Check]:
    """Check the configured platforms."""
    config = settings.load(GatewayConfig)
    if not config.telegram.is_on:
        text = "off; to talk through it set TELEGRAM_BOT_TOKEN and TELEGRAM_ALLOWED_USERS"
        return [Check("telegram", Verdict.NOTE, text)]
    return [await _telegram(config.telegram, anybody=config.allow_all_users)]


async def _telegram(config: TelegramConfig, *, anybody: bool) -> Check:
    if find_spec("telegram") is None:
        text = "python-telegram-bot is missing; install hermes-services[telegram]"
        return Check("telegram", Verdict.FAILED, text)
    found = await _bot(config)
    if found.verdict is not Verdict.OK:
        return found
    if anybody or config.allow_all_users:
        text = f"{found.message}; everybody may talk to it and run its commands"
        return Check("telegram", Verdict.NOTE, text)
    if not config.allowed_users:
        text = f"{found.message}, but nobody may talk to it; set TELEGRAM_ALLOWED_USERS"
        return Check("telegram", Verdict.NOTE, text)
    return found


async def _bot(config: TelegramConfig) -> Check:
    import httpx

    url = f"{config.base_url}{config.token.get_secret_value()}/getMe"
    try:
        async with httpx.AsyncClient(timeout=CHECK_TIMEOUT_S) as client:
            answer = await client.get(url)
    except (ImportError, ValueError) as error:
        text = f"the proxy that ALL_PROXY or HTTPS_PROXY names cannot be used: {error}"
        return Check("telegram", Verdict.FAILED, text)
    except httpx.HTTPError as error:
        # Not the error's own text: it contains the URL with the token.
        text = f"the Bot API cannot be reached ({type(error).__name__}); check the network"
        return Check("telegram", Verdict.FAILED, text)
    if answer.status_code in (401, 404):
        text = "the Bot API refuses the token; check TELEGRAM_BOT_TOKEN"
        return Check("telegram", Verdict.FAILED, text)
    if not answer.is_success:
        text = f"the Bot API answered {answer.status_code}; try again later"
        return Check("telegram", Verdict.FAILED, text)
    return Check("telegram", Verdict.OK, f"@{answer.json()['result']['username']}")
