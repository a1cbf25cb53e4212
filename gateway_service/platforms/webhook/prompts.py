"""Messages to the agent about what a webhook has brought.

The message itself is the owner's template. What strangers can write, the values of the payload,
comes beside it as a quotation, which the agent marks as data.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

MAX_VALUE_CHARS = 8000
MAX_CHARS = 60_000
WHOLE = "payload"
"""The field that stands for the whole payload."""
UNASKED = "An event came in. Say in short what has happened."
_FIELD = re.compile(r"\{([A-Za-z_][\w-]*(?:\.[\w-]+)*)\}")


def render(template: str, payload: Mapping[str, Any]) -> tuple[str, str]:
    """Return the message, with the names of fields in brackets, and the fields' values."""
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
