"""E-mail's check for `hermes doctor`."""

from gateway_service.platforms.email.config import EmailConfig
from gateway_service.platforms.email.mailbox import open_mailbox
from gateway_service.platforms.email.platform import open_smtp
from services.errors import HermesError
from services.runtime.checks import Check, Verdict


async def check_email(config: EmailConfig) -> Check:
    """Log in to both servers."""
    try:
        async with open_mailbox(config), open_smtp(config):
            told = f"reads {config.address}"
    except HermesError as error:
        return Check(config.name, Verdict.FAILED, error.message)
    if not config.auth_server:
        told += ", but no sender is confirmed; set EMAIL_AUTH_SERVER"
        return Check(config.name, Verdict.NOTE, told)
    return Check(config.name, Verdict.OK, told)
