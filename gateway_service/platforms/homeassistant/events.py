"""What Home Assistant's events mean in chats."""

from collections.abc import Sequence

from gateway_service.messages import ButtonPress, Event, MessageEvent, Quote, Source
from gateway_service.platforms.base import Json
from gateway_service.platforms.homeassistant.config import AUTOMATION, HomeAssistantConfig
from services.validation import object_of

NAME = "homeassistant"
CHANGED, PRESSED, SAID = "state_changed", "mobile_app_notification_action", "hermes_message"
"""Types of events; automations, dashboards and voice assistants fire `hermes_message`."""
REPLY = "reply"
"""The data of the button that asks for words."""
MAX_CHANGES = 50
"""How many changes one message has."""
NOTHING_TO_SAY = "[SILENT]"
"""How an answer to a change begins if nobody is to be notified."""
_OURS = "hermes"
_AWAY = ("unavailable", "unknown")
_MAX_ID = 255


def action_of(chat_id: str, data: str) -> str:
    """Return the id of a notification's action, which comes back when it is chosen."""
    return f"{_OURS}|{chat_id}|{data}"


def changed_at(state: Json) -> str:
    """Return when a state began, as text that sorts by time."""
    return str(state.get("last_changed") or "")


class EventReader:
    """Turns events into messages; about each entity at most one in a while."""

    def __init__(self, config: HomeAssistantConfig) -> None:
        self._config = config
        self._states = dict[str, str]()
        """The last known states of watched entities."""
        self._quiet_until = dict[str, float]()

    def read(self, event: Json, now: float) -> Event | None:
        """Return what an event is in a chat; None if nothing. `now` is in seconds."""
        data, context = object_of(event.get("data")), object_of(event.get("context"))
        event_id, user_id = str(context.get("id") or ""), str(context.get("user_id") or AUTOMATION)
        match event.get("event_type"):
            case "state_changed":
                new, old = object_of(data.get("new_state")), object_of(data.get("old_state"))
                told = self._tell(new, old.get("state"), now)
                return self._message(f"{changed_at(new)} {new.get('entity_id')}", told)
            case "mobile_app_notification_action" if event_id:
                ours, _, rest = str(data.get("action")).partition("|")
                chat_id, _, pressed = rest.partition("|")
                source = Source(NAME, chat_id, user_id=user_id)
                if ours != _OURS:
                    return None
                if pressed == REPLY:
                    return MessageEvent(event_id, source, str(data.get("reply_text") or ""))
                return ButtonPress(event_id, source, event_id, pressed)
            case "hermes_message" if event_id and data.get("text"):
                chat_id = str(data.get("chat") or self._config.events_chat)
                source = Source(NAME, chat_id, user_id=user_id)
                return MessageEvent(event_id, source, str(data["text"]))
            case _:
                return None

    def catch_up(self, states: Sequence[Json], cursor: str, now: float) -> MessageEvent | None:
        """Return one message about what has changed since the cursor; at first nothing has."""
        told = [
            self._tell(state, "" if cursor and changed_at(state) > cursor else None, now)
            for state in states
        ]
        lines = [line for line in told if line][:MAX_CHANGES]
        return self._message(f"since {cursor}", "\n".join(lines))

    def _tell(self, new: Json, before: object, now: float) -> str:
        """Return how a watched entity has changed; empty if it has not, or again too soon.

        `before` is its state if none is known here: None if unknown, empty if it was another.
        """
        entity_id, state = str(new.get("entity_id") or ""), str(new.get("state"))
        if state in _AWAY or not self._config.is_watched(entity_id):
            return ""
        before, self._states[entity_id] = self._states.get(entity_id, before), state
        is_quiet = now < self._quiet_until.get(entity_id, now)
        if before in (None, state, *_AWAY) or is_quiet:
            return ""
        self._quiet_until[entity_id] = now + self._config.cooldown_s
        told = object_of(new.get("attributes"))
        unit = f" {told['unit_of_measurement']}" if told.get("unit_of_measurement") else ""
        was = f"was {before}{unit}, " if before else ""
        return f"{told.get('friendly_name') or entity_id} ({entity_id}): {was}is {state}{unit}"

    def _message(self, event_id: str, told: str) -> MessageEvent | None:
        # States hold what others wrote, such as titles of songs and news.
        quote = Quote(told, "Home Assistant", is_forwarded=True)
        source = Source(NAME, self._config.events_chat, user_id=AUTOMATION)
        prompt = self._config.events_prompt
        return MessageEvent(event_id[:_MAX_ID], source, prompt, quotes=(quote,)) if told else None
