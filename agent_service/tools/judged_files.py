"""Judges what file tools touch where no sandbox holds it, by the families of commands."""

import asyncio
import hashlib
import json
from collections.abc import Callable

from msgspec import Struct

from agent_service.security.families import FAMILIES
from agent_service.security.paths import read_family, replaced_family
from agent_service.security.threats import Source
from agent_service.tools.approval import check_allowed, check_not_denied
from agent_service.tools.base import Tool, ToolContext, ToolFailed, ToolResult
from agent_service.tools.judged import DISPOSABLE, CommandPolicy
from agent_service.tools.real_paths import real_path
from agent_service.tools.wrapper import A, Wrapper

MOST_SHOWN_CHARS = 8_000
"""Of what would be written, in the question to a person."""


class Touched(Struct, frozen=True):
    """The files of a call."""

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    says: str = ""
    """What would be written, as a person is shown it."""


class JudgeFiles(Wrapper[A]):
    """A tool that touches files without a command.

    In a disposable sandbox it simply runs, as commands do there.
    """

    def __init__(
        self, inner: Tool[A], touched: Callable[[A], Touched], policy: CommandPolicy
    ) -> None:
        super().__init__(inner)
        self._touched = touched
        self._policy = policy

    async def run(self, arguments: A, context: ToolContext) -> ToolResult:
        """Run the inner tool if its files may be touched."""
        check_not_denied(context.decision)
        if (await context.sandbox()).backend not in DISPOSABLE:
            await self._check(self._touched(arguments), context)
        return await self._inner.run(arguments, context)

    async def _check(self, touched: Touched, context: ToolContext) -> None:
        named = (*touched.reads, *touched.writes)
        real = await asyncio.gather(*(real_path(context.files, path) for path in named))
        reads, writes = real[: len(touched.reads)], real[len(touched.reads) :]
        found = {path: family for path in reads if (family := read_family(path))}
        found |= {path: family for path in writes if (family := replaced_family(path))}
        for path, family in found.items():
            if FAMILIES[family].hardline:
                if self._policy.blocked is not None:
                    self._policy.blocked(Source.COMMAND, (family,))
                raise ToolFailed(
                    f"{path} was not touched: that {FAMILIES[family].about}. No setting and no "
                    "person can allow it. Do not try the same in another form."
                )
        if not found or not self._policy.asks:
            return
        about = [f"{path}: {FAMILIES[family].about}" for path, family in found.items()]
        shown = touched.says[:MOST_SHOWN_CHARS]
        cut = "" if shown == touched.says else "\n[…]"
        subject = "\n".join((f"{self.name} {', '.join(about)}", *filter(None, (shown + cut,))))
        said = json.dumps([self.name, sorted(found), touched.says])
        binding = hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()
        await check_allowed(self.name, self._policy.redactor.redact(subject), binding, context)
