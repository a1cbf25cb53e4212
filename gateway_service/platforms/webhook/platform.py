"""Webhooks: other programs tell the gateway of events, and the agent answers into a chat."""

import asyncio
import hashlib
import json
import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from gateway_service.messages import WEBHOOK, Content, MessageEvent, Quote, Source
from gateway_service.platforms.base import (
    HEARTBEAT_S,
    Destination,
    Platform,
    Received,
    Sink,
    Traits,
    WebhookRequest,
    WebhookResult,
    stay_alive,
)
from gateway_service.platforms.rate_limits import Limiter, Rate
from gateway_service.platforms.webhook.config import Route, WebhookConfig
from gateway_service.platforms.webhook.signatures import Delivery, verify
from services.amounts import plural
from services.clock import Clock, SystemClock
from services.validation import json_object

MAX_VALUE_CHARS = 8000
MAX_CHARS = 60_000
WHOLE = "payload"
"""The field that stands for the whole payload."""
UNASKED = "An event came in. Say in short what has happened."
_FIELD = re.compile(r"\{([A-Za-z_][\w-]*(?:\.[\w-]+)*)\}")


def render(template: str, payload: Mapping[str, Any]) -> tuple[str, str]:
    """Return the message, with the names of fields in brackets, and the fields' values."""
    # The template is the owner's. The values are strangers', so the agent gets them as a quotation.
    names = list(dict.fromkeys(_FIELD.findall(template))) or [WHOLE]
    text = _FIELD.sub(r"[\1]", template) if template.strip() else UNASKED
    lines = (f"{name}: {_shorten(_find(payload, name))}" for name in names)
    return text, "\n".join(lines)[:MAX_CHARS]


def _find(payload: Mapping[str, Any], name: str) -> object:
    """Return a value by its path, such as `commits.0.message`; None if there is none."""
    found: object = payload
    for part in () if name in (WHOLE, "__raw__") else name.split("."):
        if isinstance(found, dict):
            found = cast("dict[str, object]", found).get(part)
        elif isinstance(found, list) and part.isdecimal():
            items = cast("Sequence[object]", found)
            found = items[int(part)] if int(part) < len(items) else None
        else:
            return None
    return found


def _dump(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, indent=1)
    except RecursionError:
        return "(nested too deeply)"


def _shorten(value: object) -> str:
    if value is None:
        return "(nothing)"
    text = value if isinstance(value, str) else _dump(value)
    # Neither can be stored.
    text = text.replace("\0", "").encode(errors="replace").decode()
    return f"{text[:MAX_VALUE_CHARS]} … (cut)" if len(text) > MAX_VALUE_CHARS else text


_log = logging.getLogger(__name__)

MAX_BYTES = 1024 * 1024
_EVENT_HEADERS = ("x-github-event", "x-gitlab-event", "x-event-type")
_EVENT_FIELDS = ("event_type", "event", "type")
_PING = "ping"


class WebhookPlatform(Platform):
    """The routes of a home; its answers go to chats of other platforms."""

    name = account_id = WEBHOOK
    # A part fits the smallest platform; several choices are text everywhere.
    traits = Traits(
        message_units=1500,
        rate=Rate(100.0, 100),
        can_edit=False,
        repeats_safely_s=float("inf"),
        buttons=4,
        deaf_after_s=3 * HEARTBEAT_S,
    )

    def __init__(self, config: WebhookConfig, clock: Clock | None = None) -> None:
        names = ", ".join(sorted(config.routes))
        self.identity = f"{plural(len(config.routes), 'route')}: {names}"
        self._config = config
        self._clock = clock = clock or SystemClock()
        self._limiter = Limiter(Rate(config.rate_limit / 60, config.rate_limit), clock.monotonic)

    async def __aexit__(self, *_: object) -> None:
        pass

    async def listen(self, sink: Sink) -> None:
        """Show that the platform is alive; events come by `webhook`."""
        await stay_alive(sink, self._clock)

    async def send(self, destination: Destination, content: Content, key: str) -> str:
        """Keep an answer without a target, which is in the log and in its session."""
        _log.info("the answer to an event of the webhook %s is kept", destination.chat_id)
        return key

    async def webhook(self, request: WebhookRequest) -> WebhookResult:
        """Take an event: POST to the name of its route, signed with the route's secret."""
        name = request.url.partition("?")[0].rpartition("/")[2]
        route = self._config.routes.get(name)
        if route is None:
            return _refuse(404, "there is no such route")
        delivery = self._verify(name, route, request)
        if isinstance(delivery, WebhookResult):
            return delivery
        payload = await asyncio.to_thread(json_object, request.body)
        if payload is None:
            return _refuse(400, "the body must be a JSON object")
        kind = _kind_of(request.headers, payload)
        if kind == _PING or not _takes(route, kind):
            return WebhookResult(body=b"ignored")
        event = await asyncio.to_thread(self._event, name, route, delivery, request.body, payload)
        return WebhookResult(202, b"accepted", received=Received([event]))

    def _verify(self, name: str, route: Route, request: WebhookRequest) -> Delivery | WebhookResult:
        """Return the delivery, or why it is refused; nothing in it is read yet."""
        if request.method != "POST":
            return _refuse(405, "events are sent by POST")
        if len(request.body) > MAX_BYTES:
            return _refuse(413, f"at most {MAX_BYTES:,} bytes")
        secret, now_s = self._config.secret_of(route), self._clock.now().timestamp()
        delivery = verify(secret, request.headers, request.body, now_s)
        if delivery is None:
            return _refuse(401, "the signature is missing, wrong or too old")
        if not _is_json(request.headers.get("content-type", "")):
            return _refuse(415, "events are application/json")
        if self._limiter.wait_s(name) > 0:
            return _refuse(429, f"at most {self._config.rate_limit} events a minute")
        self._limiter.take(name)
        return delivery

    def _event(
        self, name: str, route: Route, delivery: Delivery, body: bytes, payload: Mapping[str, Any]
    ) -> MessageEvent:
        # A sender that signs the time repeats an event with its id and another time.
        content = body if delivery.is_timed and "id" in payload else delivery.content
        event_id = hashlib.sha256(name.encode() + b"\0" + content).hexdigest()
        text, values = render(route.prompt, payload)
        if route.skills:
            text = f"/{route.skills[0]} {text}"
        source = Source(
            self.name,
            chat_id=name,
            thread_id=event_id[:16],
            user_id=name,
            user_name=f"the webhook {name}",
            target=route.target,
        )
        quote = Quote(values, f"the webhook {name}", is_forwarded=True)
        return MessageEvent(event_id, source, text, quotes=(quote,))


def _refuse(status: int, why: str) -> WebhookResult:
    return WebhookResult(status, why.encode())


def _is_json(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return kind == "application/json" or (
        kind.startswith("application/") and kind.endswith("+json")
    )


def _kind_of(headers: Mapping[str, str], payload: Mapping[str, Any]) -> str:
    named = (headers.get(name, "") for name in _EVENT_HEADERS)
    said = (payload.get(name) for name in _EVENT_FIELDS)
    kind = next((str(each) for each in (*named, *said) if isinstance(each, str) and each), "")
    action = payload.get("action")
    return f"{kind}.{action}" if kind and isinstance(action, str) else kind


def _takes(route: Route, kind: str) -> bool:
    return not route.events or any(
        kind == each or kind.startswith(f"{each}.") for each in route.events
    )
