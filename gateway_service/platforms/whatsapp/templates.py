"""Messages later than 24 hours after the person's last one, which must be approved templates."""

import logging
from collections.abc import Sequence

from gateway_service.errors import PlatformError
from gateway_service.messages import Content, DeliveryFailure
from gateway_service.platforms.markup import PLAIN, render
from gateway_service.platforms.whatsapp.api import NAME, WINDOW, GraphApi
from gateway_service.platforms.whatsapp.config import WhatsAppConfig

_log = logging.getLogger(__name__)

MOST_KEPT = 200
"""How many of the last messages are sent again if WhatsApp refuses them later."""
VARIABLE_CHARS = 1000
"""How long a template's variable may be; it has no line breaks."""


class Templates:
    """Sends what people get outside the 24 hours, if a template is configured."""

    def __init__(self, config: WhatsAppConfig, api: GraphApi) -> None:
        self._name, self._language = config.template, config.template_language
        self._api = api
        self._kept = dict[str, tuple[str, str]]()
        """The chat and text of messages that WhatsApp may still refuse, by id."""

    def keep(self, message_id: str, to: str, content: Content) -> None:
        """Remember a message that WhatsApp has accepted."""
        if self._name:
            self._kept[message_id] = (to, _shorten(content))
        if len(self._kept) > MOST_KEPT:
            del self._kept[next(iter(self._kept))]

    async def send(self, to: str, content: Content, refusal: PlatformError) -> str:
        """Send a message that was refused as a template; raises the refusal without one."""
        if not self._name or refusal.message != WINDOW:
            raise refusal
        return await self._send(to, _shorten(content))

    async def repeat(self, failures: Sequence[DeliveryFailure]) -> list[DeliveryFailure]:
        """Send accepted messages that were refused later; return the other failures."""
        left = list[DeliveryFailure]()
        for failure in failures:
            to, text = self._kept.get(failure.message_id, ("", ""))
            if not text or failure.reason != WINDOW:
                left.append(failure)
                continue
            try:
                if to:
                    await self._send(to, text)
                self._kept[failure.message_id] = ("", text)  # WhatsApp may say it twice
            except PlatformError as error:
                _log.warning("a message of whatsapp is not sent as a template: %s", error)
                left.append(failure)
        return left

    async def _send(self, to: str, text: str) -> str:
        variable = {"type": "body", "parameters": [{"type": "text", "text": text}]}
        template = {
            "name": self._name,
            "language": {"code": self._language},
            "components": [variable],
        }
        body = {"messaging_product": NAME, "recipient_type": "individual", "to": to}
        body |= {"type": "template", "template": template}
        return (await self._api.post("messages", json=body))["messages"][0]["id"]


def _shorten(content: Content) -> str:
    text = " ".join(render(content.text, PLAIN).split())
    if content.attachment is not None:
        text = f"{text} ({content.attachment.name})".lstrip()
    return text if len(text) <= VARIABLE_CHARS else f"{text[: VARIABLE_CHARS - 1]}…"
