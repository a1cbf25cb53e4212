"""WhatsApp's check for `hermes doctor`."""

from gateway_service.errors import PlatformError
from gateway_service.platforms.whatsapp.api import GraphApi
from gateway_service.platforms.whatsapp.config import WhatsAppConfig
from services.runtime.checks import Check, Verdict


async def check_whatsapp(config: WhatsAppConfig) -> Check:
    """Ask WhatsApp whether it knows the phone number and the token."""
    api = GraphApi(config)
    try:
        api.connect()
        fields = {"fields": "display_phone_number,verified_name"}
        found = await api.call("GET", config.phone_number_id, params=fields)
    except PlatformError as error:
        return Check("whatsapp", Verdict.FAILED, error.message)
    finally:
        await api.close()
    number, name = found.get("display_phone_number", ""), found.get("verified_name", "")
    return Check("whatsapp", Verdict.OK, f"{number} {name}".strip())
