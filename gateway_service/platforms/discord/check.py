"""Discord's check for `hermes doctor`."""

from gateway_service.platforms.discord.config import DiscordConfig
from services.runtime.checks import Check, Verdict

CHECK_TIMEOUT_S = 5.0
_READS_MESSAGES = 1 << 18 | 1 << 19


async def check_discord(config: DiscordConfig) -> Check:
    """Ask Discord whether it knows the token and lets the bot read messages."""
    import httpx

    headers = {"Authorization": f"Bot {config.token.get_secret_value()}"}
    try:
        async with httpx.AsyncClient(timeout=CHECK_TIMEOUT_S, headers=headers) as client:
            answer = await client.get(f"{config.base_url}/applications/@me")
    except (ImportError, ValueError) as error:
        text = f"the proxy that ALL_PROXY or HTTPS_PROXY names cannot be used: {error}"
        return Check("discord", Verdict.FAILED, text)
    except httpx.HTTPError as error:
        text = f"Discord cannot be reached ({type(error).__name__}); check the network"
        return Check("discord", Verdict.FAILED, text)
    if answer.status_code == 401:
        text = "Discord refuses the token; check DISCORD_BOT_TOKEN"
        return Check("discord", Verdict.FAILED, text)
    if not answer.is_success:
        text = f"Discord answered {answer.status_code}; try again later"
        return Check("discord", Verdict.FAILED, text)
    application = answer.json()
    if not application["flags"] & _READS_MESSAGES:
        text = "switch on Message Content Intent on the page Bot of the application"
        return Check("discord", Verdict.FAILED, text)
    return Check("discord", Verdict.OK, f"the bot {application['name']}")
