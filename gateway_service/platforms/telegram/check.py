"""Telegram's check for `hermes doctor`."""

from gateway_service.platforms.telegram.config import TelegramConfig
from services.runtime.checks import Check, Verdict

CHECK_TIMEOUT_S = 5.0


async def check_telegram(config: TelegramConfig) -> Check:
    """Ask the Bot API whether it knows the token."""
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
