"""/webhooks/<platform>: events that platforms send."""

import asyncio
import logging
from collections.abc import Mapping

from msgspec import Struct

from gateway_service.metrics import GatewayMetrics
from gateway_service.platforms.base import HasWebhook, WebhookRequest, WebhookResult
from gateway_service.servicer.http.exchange import Reply, refuse
from gateway_service.storage.inbox import Account
from gateway_service.turns.inbox import Inbox
from services.errors import HermesError, Internal
from services.lifecycle import result_or_error

_log = logging.getLogger(__name__)
OUTCOMES = ("accepted", "refused", "failed")


class Webhook(Struct, frozen=True):
    """A platform that sends events, and whose inbox they go to."""

    platform: HasWebhook
    account: Account


class Webhooks(Struct, frozen=True):
    """Stores what platforms send, and answers them afterwards."""

    _inbox: Inbox
    metrics: GatewayMetrics
    _by_name: Mapping[str, Webhook]

    def __bool__(self) -> bool:
        return bool(self._by_name)

    def initialize(self) -> None:
        """Create the counters at 0, so that the first request is seen as a change."""
        for name in self._by_name:
            for outcome in OUTCOMES:
                self.metrics.webhooks.labels(name, outcome)

    def knows(self, name: str) -> bool:
        """Return whether a platform is called so, and count if not."""
        if name not in self._by_name:
            self._count("other", "unknown")
        return name in self._by_name

    async def receive(self, name: str, request: WebhookRequest) -> Reply:
        webhook = self._by_name[name]
        try:
            # A platform that hangs up does not cancel what is being stored.
            result = await asyncio.shield(result_or_error(self._receive(webhook, request)))
        except HermesError as error:
            _log.warning("a webhook of %s failed: %s", name, error)
            self._count(name, "failed")
            return refuse(error)
        if isinstance(result, Exception):
            _log.error("a webhook of %s failed", name, exc_info=result)
            self._count(name, "failed")
            return refuse(Internal("the request could not be handled"))
        is_refused = result.status >= 400
        if is_refused:
            _log.warning("a webhook of %s was refused with status %d", name, result.status)
        self._count(name, "refused" if is_refused else "accepted")
        return Reply(result.body, result.status, content_type=result.content_type)

    async def _receive(self, webhook: Webhook, request: WebhookRequest) -> WebhookResult:
        result = await webhook.platform.webhook(request)
        received = result.received
        if not received.is_empty:
            await self._inbox.receive_webhook(webhook.account, received)
        return result

    def _count(self, name: str, outcome: str) -> None:
        self.metrics.webhooks.labels(name, outcome).inc()
