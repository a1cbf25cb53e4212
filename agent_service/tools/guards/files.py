"""Judges which files the file tools may touch outside of sandboxes."""

import hashlib
import json
import posixpath
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from agent_service.records.sandbox import Files, SandboxInfo
from agent_service.security.commands.families import FAMILIES
from agent_service.security.commands.paths import is_below, read_family, replaced_family
from agent_service.security.threats import Source
from agent_service.tools.base import (
    A,
    RetryWithHint,
    Tool,
    ToolContext,
    ToolFailed,
    ToolResult,
    Wrapper,
)
from agent_service.tools.guards.approval import check_allowed, check_not_denied
from agent_service.tools.guards.commands import DISPOSABLE, CommandPolicy
from agent_service.tools.texts import WORKSPACE
from services.lifecycle import all_of

MOST_SHOWN_CHARS = 8_000


class Touched(Struct, frozen=True):
    """The files that a call touches."""

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    says: str = ""
    """The new content, as a person is shown it."""


def guarded_family(path: str, own: Sequence[str]) -> str:
    """The family of reading a path; empty if that needs no approval."""
    return read_family(path) or ("own-config" if is_below(path, own) else "")


async def real_places(own: Sequence[str], files: Files) -> Sequence[str]:
    """The agent's home as it is named, and its real path on a machine."""
    return (*own, *await all_of(real_path(files, home) for home in own))


async def guarded(
    paths: Sequence[str], files: Files, place: SandboxInfo, policy: CommandPolicy
) -> Mapping[str, str]:
    """The files that need approval before they leave a machine, by real path with their family."""
    if not policy.asks or place.backend in DISPOSABLE:
        return {}
    real = await all_of(real_path(files, path) for path in paths)
    own = await real_places(policy.own, files)
    return {path: family for path in real if (family := guarded_family(path, own))}


class JudgeFiles(Wrapper[A]):
    """A tool that touches files without a command; unrestricted in a disposable sandbox."""

    def __init__(
        self, inner: Tool[A], touched: Callable[[A], Touched], policy: CommandPolicy
    ) -> None:
        super().__init__(inner)
        self._touched = touched
        self._policy = policy

    async def run(self, arguments: A, context: ToolContext) -> ToolResult:
        check_not_denied(context.decision)
        if (await context.sandbox()).backend not in DISPOSABLE:
            await self._check(self._touched(arguments), context)
        return await self._inner.run(arguments, context)

    async def _check(self, touched: Touched, context: ToolContext) -> None:
        named = (*touched.reads, *touched.writes)
        real = await all_of(real_path(context.files, path) for path in named)
        reads, writes = real[: len(touched.reads)], real[len(touched.reads) :]
        own = await real_places(self._policy.own, context.files)
        found = {path: family for path in reads if (family := guarded_family(path, own))}
        found |= {path: family for path in writes if (family := _replaced(path, own))}
        for path, family in found.items():
            if FAMILIES[family].hardline:
                if self._policy.blocked is not None:
                    self._policy.blocked(Source.COMMAND, (family,))
                raise ToolFailed(
                    f"{path} was not touched: this call {FAMILIES[family].about}. No setting "
                    "and no person can allow it. Do not try it in another form."
                )
        if not found or not self._policy.asks:
            return
        about = [f"{path}: {FAMILIES[family].about}" for path, family in found.items()]
        shown = touched.says[:MOST_SHOWN_CHARS]
        cut = "" if shown == touched.says else "\n[…]"
        subject = "\n".join((f"{self.name} {', '.join(about)}", *filter(None, (shown + cut,))))
        document = json.dumps([self.name, sorted(found), touched.says])
        binding = hashlib.sha256(document.encode("utf-8", "surrogatepass")).hexdigest()
        await check_allowed(self.name, self._policy.redactor.redact(subject), binding, context)


def _replaced(path: str, own: Sequence[str]) -> str:
    return replaced_family(path) or ("own-config" if is_below(path, own) else "")


MOST_LINKS = 40
"""The limit of Linux."""


async def real_path(files: Files, path: str) -> str:
    """The path without links and `..`, as far as it exists.

    RetryWithHint if `..` leaves the workspace, since only the machine knows what is there.
    """
    parts = _parts(posixpath.join(WORKSPACE, path))
    for _ in range(MOST_LINKS):
        while ".." in parts:
            up = parts.index("..")
            if (followed := await _followed(files, parts[:up])) is not None:
                parts[:up] = followed
                break
            if parts[:up] == _parts(WORKSPACE):
                raise RetryWithHint(f"{path} leads out of the workspace. Use an absolute path.")
            parts[max(0, up - 1) : up + 1] = []
        else:
            followed = await _followed(files, parts)
            if followed is None:
                return "/" + "/".join(parts)
            parts = followed
    raise ToolFailed(f"{path} has too many symbolic links.")


async def _followed(files: Files, parts: Sequence[str]) -> list[str] | None:
    ends = [parts[: number + 1] for number in range(len(parts))]
    found = await all_of(files.stat("/" + "/".join(end)) for end in ends)
    for end, stat in zip(ends, found, strict=True):
        if stat is not None and stat.kind == "symlink":
            target = posixpath.join("/" + "/".join(end[:-1]), stat.link_target)
            return [*_parts(target), *parts[len(end) :]]
    return None


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]
