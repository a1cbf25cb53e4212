"""The check of SMS for `hermes doctor`."""

from gateway_service.platforms.sms.config import SmsConfig
from services.runtime.checks import Check, Verdict

CHECK_TIMEOUT_S = 5.0


async def check_sms(config: SmsConfig) -> Check:
    """Ask Twilio whether it knows the account."""
    import httpx

    url = f"{config.base_url}/2010-04-01/Accounts/{config.account_sid}.json"
    login = (config.account_sid, config.token.get_secret_value())
    try:
        async with httpx.AsyncClient(timeout=CHECK_TIMEOUT_S) as client:
            answer = await client.get(url, auth=login)
    except httpx.HTTPError as error:
        text = f"Twilio cannot be reached ({type(error).__name__}); check the network"
        return Check("sms", Verdict.FAILED, text)
    if answer.status_code in (401, 404):
        text = "Twilio refuses the account; check TWILIO_ACCOUNT_SID and TWILIO_AUTH_TOKEN"
        return Check("sms", Verdict.FAILED, text)
    if not answer.is_success:
        text = f"Twilio answered {answer.status_code}; try again later"
        return Check("sms", Verdict.FAILED, text)
    return Check("sms", Verdict.OK, config.phone_number)
