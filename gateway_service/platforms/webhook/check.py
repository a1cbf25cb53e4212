"""The check of webhooks for `hermes doctor`."""

from gateway_service.platforms.webhook.config import WebhookConfig
from services.amounts import plural
from services.runtime.checks import Check, Verdict


async def check_webhook(config: WebhookConfig) -> Check:
    """Say which routes there are."""
    names = ", ".join(sorted(config.routes))
    return Check("webhook", Verdict.OK, f"{plural(len(config.routes), 'route')}: {names}")
