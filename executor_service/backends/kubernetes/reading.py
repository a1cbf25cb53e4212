"""Reading objects of the Kubernetes API, which leave out what is empty."""

import json
from typing import Any, cast

Json = dict[str, Any]


def part(thing: Json, *path: str) -> Json:
    """The object at the end of the path; empty where there is none."""
    for name in path:
        thing = thing.get(name) or {}
    return thing


def parts(thing: Json, *path: str) -> list[Json]:
    """The list of objects at the end of the path; empty where there is none."""
    *outer, last = path
    found: list[Json] = part(thing, *outer).get(last) or []
    return found


def message_of(text: str) -> str:
    """What a Status object says, or the text of another answer, in one line."""
    try:
        content: Any = json.loads(text)
    except ValueError:
        content = text
    if isinstance(content, dict):
        text = str(cast("dict[str, Any]", content).get("message") or text)
    return " ".join(text.split()) or "no reason was given"
