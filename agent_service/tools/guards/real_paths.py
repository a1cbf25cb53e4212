"""Where a path of a sandbox leads in the end, with links and `..` followed."""

import posixpath
from collections.abc import Sequence

from agent_service.records.sandbox import Files
from agent_service.tools.base import RetryWithHint, ToolFailed
from agent_service.tools.files.texts import WORKSPACE
from services.lifecycle import all_of

MOST_LINKS = 40
"""As many as Linux follows."""


async def real_path(files: Files, path: str) -> str:
    """The path without links and `..`, as far as it is there.

    Fails with RetryWithHint where it leaves the workspace by `..`, as only the machine knows what
    is around it.
    """
    parts = _parts(posixpath.join(WORKSPACE, path))
    for _ in range(MOST_LINKS):
        while ".." in parts:
            up = parts.index("..")
            if (followed := await _followed(files, parts[:up])) is not None:
                parts[:up] = followed
                break
            if parts[:up] == _parts(WORKSPACE):
                raise RetryWithHint(f"{path} leads out of the workspace; name it from / on.")
            parts[max(0, up - 1) : up + 1] = []
        else:
            followed = await _followed(files, parts)
            if followed is None:
                return "/" + "/".join(parts)
            parts = followed
    raise ToolFailed(f"{path} has too many links in it.")


async def _followed(files: Files, parts: Sequence[str]) -> list[str] | None:
    """The path with its first link followed; None where there is none in it."""
    ends = [parts[: number + 1] for number in range(len(parts))]
    found = await all_of(files.stat("/" + "/".join(end)) for end in ends)
    for end, stat in zip(ends, found, strict=True):
        if stat is not None and stat.kind == "symlink":
            target = posixpath.join("/" + "/".join(end[:-1]), stat.link_target)
            return [*_parts(target), *parts[len(end) :]]
    return None


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]
