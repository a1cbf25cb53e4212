"""A profile's memories: read for a session's prompt, changed by tools and people.

A change is recorded under the caller's key before it is made, so a resumed turn that repeats it
finds the record and completes the change only if needed.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import sha256

from msgspec import Struct, field
from msgspec.structs import replace

from agent_service.profiles.memory.entries import (
    Limits,
    MemoryRefused,
    Operation,
    Target,
    apply,
    is_drifted,
    parse,
)
from agent_service.security.threats import Source, ThreatScanner
from agent_service.storage import memory as storage
from agent_service.storage.memory import MemoryChange
from agent_service.storage.profiles import Document, ProfileStore
from services.clock import Clock
from services.database import Database
from services.errors import Aborted, AlreadyExists
from services.home.texts import decode_text
from services.ids import new_id

RULE = "═" * 48

_log = logging.getLogger(__name__)

_DOCUMENTS = {Target.MEMORY: "memories/MEMORY.md", Target.USER: "memories/USER.md"}
_TITLES = {
    Target.MEMORY: "MEMORY (your personal notes)",
    Target.USER: "USER PROFILE (who the user is)",
}


class Memory(Struct, frozen=True):
    """One memory as it is now."""

    target: Target
    text: str
    limit: int

    @property
    def entries(self) -> list[str]:
        return parse(self.text)

    @property
    def is_drifted(self) -> bool:
        """Return whether a person edited the memory, so that a change must keep a copy."""
        return is_drifted(self.text)

    @property
    def version(self) -> str:
        """Return a version that differs for every text."""
        return sha256(self.text.encode()).hexdigest()[:16]

    @property
    def length(self) -> int:
        return len(self.text.rstrip("\n"))

    @property
    def used_ratio(self) -> float:
        return self.length / self.limit

    @property
    def used(self) -> str:
        return f"{self.length * 100 // self.limit}% — {self.length}/{self.limit} chars"

    @property
    def too_long(self) -> str:
        """Return a warning for people if the memory exceeds its limit; else an empty text."""
        if self.length <= self.limit:
            return ""
        return (
            f"{_DOCUMENTS[self.target]} is longer than its limit ({self.used}). All of it is in "
            "the prompt, and nothing can be added before it is shorter: edit it, or raise "
            f"memory.{self.target}_char_limit."
        )

    def in_prompt(self, screened: Callable[[str], str] = str) -> str:
        """Return the memory as shown in a prompt, each entry `screened`; may be empty."""
        if not self.entries:
            return ""
        head = f"{RULE}\n{_TITLES[self.target]} [{self.used}]\n{RULE}\n"
        return head + "\n§\n".join(map(screened, self.entries))


class Snapshot(Struct, frozen=True):
    """What a session is told of both memories when it begins."""

    texts: tuple[str, ...] = ()
    limits: Mapping[str, int] = field(default_factory=dict[str, int])
    """Limits in characters for the whole session; empty if the current settings always apply."""
    too_long: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()
    """Warnings for people about entries that are kept out of prompts."""


class MemoryChangeRequest(Struct, frozen=True):
    """A requested change."""

    key: str
    profile: str
    target: Target
    operations: Sequence[Operation]
    by: str
    turn_id: str = ""
    version: str = ""
    """The version that the memory must have; empty if any will do."""
    limit: int | None = None
    """The limit in characters that the session was told; None means the current one."""


class MemoryStore:
    """The memories of all profiles."""

    def __init__(
        self,
        profiles: ProfileStore,
        database: Database,
        limits: Limits,
        clock: Clock,
        scanner: ThreatScanner,
    ) -> None:
        self._profiles = profiles
        self._database = database
        self._limits = limits
        self._clock = clock
        self._scanner = scanner

    async def load(self, profile: str) -> list[Memory]:
        found = await self._profiles.read(profile, *_DOCUMENTS.values())
        limits = await self._limits.now()
        return [
            _memory(target, data, limits[target])
            for target, data in zip(_DOCUMENTS, found, strict=True)
        ]

    async def snapshot(self, profile: str) -> Snapshot:
        """Return both memories for a session's prompt, without entries that try to give orders."""
        memories = await self.load(profile)
        shown = await asyncio.to_thread(lambda: list(map(self._render, memories)))
        too_long = tuple(filter(None, (memory.too_long for memory in memories)))
        limits = {str(memory.target): memory.limit for memory in memories}
        return Snapshot(
            tuple(text for text, _ in shown),
            limits if self._limits.window else {},
            too_long,
            tuple(blocked for _, blocked in shown if blocked),
        )

    async def change(self, asked: MemoryChangeRequest) -> Memory:
        async def after(memory: Memory, document: Document) -> str:
            if asked.version and asked.version != memory.version:
                raise Aborted("the memory was changed meanwhile; look at it again")
            await asyncio.to_thread(self._check, asked.operations)
            if memory.is_drifted:
                await document.keep_copy(f".bak.{self._clock.now():%Y%m%d-%H%M%S}")
            return apply(memory.text, asked.operations, memory.limit)

        return await self._made(asked, after)

    async def undo(self, profile: str, undone: str, key: str, by: str) -> Memory:
        change = await self._database.read(lambda conn: storage.get(conn, profile, undone))

        async def after(memory: Memory, _: Document) -> str:
            if memory.text not in (change.before, change.after):
                raise MemoryRefused(
                    "This memory was changed since; undo the later changes first, or edit it."
                )
            return change.before

        return await self._made(
            MemoryChangeRequest(key, profile, Target(change.target), (), by), after
        )

    async def texts(self, profile: str) -> Mapping[Target, str]:
        """Return both memories as text, to compare with a later state."""
        return {memory.target: memory.text for memory in await self.load(profile)}

    async def note_import(self, profile: str, before: Mapping[Target, str], by: str) -> None:
        for target, after in (await self.texts(profile)).items():
            if before[target] != after:
                key = new_id("chg")
                asked = MemoryChangeRequest(key, profile, target, (), by)
                change = self._changed(asked, before[target], after)
                await self._database.write(lambda conn, change=change: storage.intend(conn, change))
                await self._note(key)

    async def history(self, profile: str, most: int) -> Sequence[MemoryChange]:
        return await self._database.read(lambda conn: storage.latest(conn, profile, most))

    def _check(self, operations: Sequence[Operation]) -> None:
        for operation in operations:
            if families := self._families(operation.content):
                raise MemoryRefused(
                    f"That reads like an order to the agent itself ({families}), and is not kept. "
                    "Say it as a fact about the user or the work."
                )

    def _render(self, memory: Memory) -> tuple[str, str]:
        blocked: list[str] = []

        def screened(entry: str) -> str:
            families = self._families(entry)
            if not families:
                return entry
            blocked.append(families)
            return f"[BLOCKED: {families}]"

        text = memory.in_prompt(screened)
        if not blocked:
            return text, ""
        name, families = _DOCUMENTS[memory.target], "; ".join(dict.fromkeys(blocked))
        _log.warning("%d entries of %s are kept out of prompts: %s", len(blocked), name, families)
        what = "one entry" if len(blocked) == 1 else f"{len(blocked)} entries"
        return text, (
            f"What looks like an attack in {name} ({what}: {families}) is kept from the model, "
            "which is told [BLOCKED] in its place. See `hermes memory show`, and take out of the "
            "file what is not yours."
        )

    def _families(self, text: str) -> str:
        found = {threat.family for threat in self._scanner.scan(text, strict=True)}
        if found:
            self._scanner.blocked(Source.MEMORY, found)
        return ", ".join(sorted(found))

    async def _made(
        self, asked: MemoryChangeRequest, after: Callable[[Memory, Document], Awaitable[str]]
    ) -> Memory:
        async with self._profiles.opened(asked.profile, _DOCUMENTS[asked.target]) as document:
            memory = await self._writable(asked.target, document.data, asked.limit)
            known = await self._database.read(lambda conn: storage.find(conn, asked.key))
            if known is not None and (known.profile, known.target) != (asked.profile, asked.target):
                raise AlreadyExists(f"the request id {asked.key} was used for another memory")
            if known is not None and (known.made or known.after == memory.text):
                await self._note(asked.key)
                return memory
            text = await after(memory, document)
            if text == memory.text:
                return memory
            change = self._changed(asked, memory.text, text)
            await self._database.write(lambda conn: storage.intend(conn, change))
            await document.replace(text.encode())
            await self._note(asked.key)
            return replace(memory, text=text)

    def _changed(self, asked: MemoryChangeRequest, before: str, after: str) -> MemoryChange:
        return MemoryChange(
            asked.key,
            asked.profile,
            asked.target,
            asked.turn_id,
            asked.by,
            before,
            after,
            made=False,
            created_at=self._clock.now(),
        )

    async def _note(self, key: str) -> None:
        await self._database.write(lambda conn: storage.mark_made(conn, key))

    async def _writable(self, target: Target, data: bytes, limit: int | None = None) -> Memory:
        now = (await self._limits.now())[target] if limit is None else limit
        try:
            decode_text(data)
        except UnicodeDecodeError:
            raise MemoryRefused(
                f"{_DOCUMENTS[target]} is not UTF-8 text; its user has to mend it."
            ) from None
        return _memory(target, data, now)


def _memory(target: Target, data: bytes, limit: int) -> Memory:
    return Memory(target, decode_text(data, "replace"), limit)
