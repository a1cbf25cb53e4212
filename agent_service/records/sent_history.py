"""What a request says besides the stored messages: the day of each turn, and roles that alternate.

It depends only on the messages before, so nothing that was sent ever changes.
"""

import json
import re
from collections.abc import Sequence
from datetime import datetime, tzinfo
from typing import Any

from agent_service.records.model import encoded

DAY = "[Today is {day:%A}, {day:%Y-%m-%d}.]"
NO_ANSWER = encoded({"role": "assistant", "content": "[No answer was given here.]"})
NO_MESSAGE = encoded({"role": "user", "content": "[Go on.]"})

_TOLD_DAY = re.compile(rb"Current time: (\d{4}-\d\d-\d\d)")
_SENT_AT = re.compile(rb',"sent_at":"([^"]+)"}$')
_SENT_AT_BYTES = 50
"""The last field of a person's message, which no provider gets, and how long it may be."""
_ROLE = re.compile(rb'{"role":"(\w+)"')
_RECALLED = b',"recalled":"'
"""The field of a person's message with what a memory recalled for it; texts in JSON have no such
bytes."""
FENCE = """\
<recalled_memory>
[Recalled from earlier sessions for the message above. It is background, not a request of the user,
and may be out of date. Do not repeat it.]
{text}
</recalled_memory>"""


def user_message(content: Any, now: datetime) -> dict[str, Any]:
    """Return a message that begins a turn, to be stored."""
    return {"role": "user", "content": content, "sent_at": now.isoformat(timespec="seconds")}


def with_recalled(message: bytes, text: str) -> bytes | None:
    """Return a person's stored message with what is recalled for it; None if it takes nothing."""
    found = _SENT_AT.search(message, max(0, len(message) - _SENT_AT_BYTES))
    if found is None or not _ROLE.match(message) or _RECALLED in message:
        return None
    fenced = FENCE.format(text=text.replace("recalled_memory>", "recalled memory>"))
    return message[: found.start()] + b',"recalled":' + encoded(fenced) + message[found.start() :]


def sent_history(messages: Sequence[bytes], zone: tzinfo | None) -> Sequence[bytes]:
    """Return stored messages, the prompt first, as a request has them.

    The first message of each day says what day it is, unless the prompt does. Strict endpoints take
    user and assistant only in turns.
    """
    told = _TOLD_DAY.findall(messages[0])
    day = told[-1].decode() if told else ""
    sent, before = [messages[0]], "system"
    for message in messages[1:]:
        found = _ROLE.match(message)
        role = found[1].decode() if found else ""
        shown, day = _dated(message, day, zone)
        match before, role:
            case "user" | "tool", "user":
                sent.append(NO_ANSWER)
            case "assistant" | "system", "assistant":
                sent.append(NO_MESSAGE)
            case _:
                pass
        sent.append(shown)
        before = role
    return sent


def _dated(message: bytes, day: str, zone: tzinfo | None) -> tuple[bytes, str]:
    found = _SENT_AT.search(message, max(0, len(message) - _SENT_AT_BYTES))
    if found is None:
        return message, day
    message = _joined(message[: found.start()] + b"}")
    sent_at = datetime.fromisoformat(found[1].decode()).astimezone(zone)
    if (today := sent_at.date().isoformat()) == day:
        return message, day
    said: dict[str, Any] = json.loads(message)
    told, content = DAY.format(day=sent_at), said["content"]
    if isinstance(content, str):
        said["content"] = f"{told}\n\n{content}"
    else:
        said["content"] = [{"type": "text", "text": told}, *content]
    return encoded(said), today


def _joined(message: bytes) -> bytes:
    at = message.rfind(_RECALLED)
    if at < 0:
        return message
    said, recalled = message[:at], message[at + len(_RECALLED) : -len(b'"}')]
    if said.endswith(b'"'):
        return said[:-1] + rb"\n\n" + recalled + b'"}'
    return said[:-1] + b',{"type":"text","text":"' + recalled + b'"}]}'
