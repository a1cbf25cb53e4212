"""Reading objects of the Kubernetes API, which leave out what is empty."""

from typing import Any

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
