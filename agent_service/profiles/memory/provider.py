"""The seam of external memory providers, and what keeps their outages from costing anything else.

One provider at most stands beside a profile's own memories. It learns from what a person says and
what the agent answers, and gives back what fits: a block of the prompt, and a recall for a message.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import datetime
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from agent_service.records.arguments import ToolArguments
from agent_service.security.threats import Source, ThreatScanner
from services.clock import Clock

BLOCK_S = 3.0
"""The time that a new session waits for the provider's block."""
RECALL_S = 2.0
"""The time that a message waits for what the provider recalls."""
TOOL_S = 45.0
SYNC_S = 30.0

FAILURES = 3
"""After so many failures in a row the provider is left alone for a while."""
REST_S = 60.0

NOT_CHOSEN = "memory.provider does not name it; run: hermes memory setup"
"""Why a provider is not used that nobody has chosen."""

_log = logging.getLogger(__name__)

T = TypeVar("T")


class ProviderFailed(Exception):
    """The provider did not do what it was asked; the message says why."""

    def __init__(self, message: str, *, is_outage: bool = False) -> None:
        """`is_outage`: it would not do anything else either."""
        super().__init__(message)
        self.is_outage = is_outage


class Scope(Struct, frozen=True):
    """Whose memory it is."""

    profile: str
    session_id: str = ""


class Utterance(Struct, frozen=True):
    """What was said in a session."""

    text: str
    is_user: bool
    """The person said it; else the agent did."""
    at: datetime


class ProviderTool(Struct, frozen=True):
    """A tool that a provider offers to models."""

    name: str
    arguments: type[ToolArguments]
    run: Callable[[Scope, Any], Awaitable[str]]
    saves: bool = False
    """Whether it stores something."""


class MemoryProvider(Protocol):
    """A memory outside of Hermes; its methods raise ProviderFailed."""

    async def block(self, scope: Scope) -> str:
        """Return what the prompt of a new session says; may be empty."""
        ...

    async def recall(self, scope: Scope, query: str) -> str:
        """Return what fits a message; may be empty."""
        ...

    async def sync(self, scope: Scope, said: Sequence[Utterance]) -> None:
        """Take in what was said in a session since the last call."""
        ...

    async def on_session_end(self, scope: Scope) -> None:
        """Note that a person has left a session; what was said in it is taken in already."""
        ...

    def tools(self) -> Sequence[ProviderTool]: ...

    async def backup(self, profile: str) -> bytes:
        """Return what it knows, as a JSON document."""
        ...


class ExternalMemory:
    """The configured provider behind time limits and a circuit; each is left alone while it fails.

    What it gives is screened for attacks.
    """

    def __init__(
        self,
        name: str,
        provider: MemoryProvider,
        clock: Clock,
        scanner: ThreatScanner,
        *,
        lack: str = "",
        injects: bool = True,
        connected: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
    ) -> None:
        """`lack` says why it is not used; `injects`: prompts and messages have what it knows.

        Connections may be kept while `connected` is entered.
        """
        self.name = name
        self.lack, self.is_on = lack, not lack
        self.connected = connected
        self.provider = provider
        self._clock = clock
        self._scanner = scanner
        self._injects = injects
        self._failures, self._rests_until = 0, 0.0

    @property
    def rests(self) -> bool:
        """Whether it failed so often that it is left alone for a while."""
        return self._clock.monotonic() < self._rests_until

    def serves(self, toolsets: Collection[str]) -> bool:
        """Return whether it serves a turn with these toolsets; empty means all."""
        return self.is_on and (not toolsets or self.name in toolsets)

    async def block(self, scope: Scope, toolsets: Collection[str]) -> str:
        """Return its part of a new session's prompt; empty if it fails."""
        if not (self._injects and self.serves(toolsets)):
            return ""
        return await self._shown(lambda: self.provider.block(scope), BLOCK_S)

    async def recall(self, scope: Scope, query: str, toolsets: Collection[str]) -> str:
        """Return what fits a message; empty if it fails."""
        if not (self._injects and self.serves(toolsets) and query.strip()):
            return ""
        return await self._shown(lambda: self.provider.recall(scope, query), RECALL_S)

    async def call(self, work: Callable[[], Awaitable[T]], limit_s: float) -> T:
        if self.rests:
            raise ProviderFailed(f"{self.name} failed several times and is left alone for a minute")
        try:
            async with asyncio.timeout(limit_s):
                found = await work()
        except TimeoutError:
            self._failed()
            why = f"{self.name} did not answer within {limit_s:.0f} s"
            raise ProviderFailed(why, is_outage=True) from None
        except ProviderFailed as error:
            if error.is_outage:
                self._failed()
            raise
        self._failures = 0
        return found

    async def cleaned(self, text: str) -> str:
        clean, _ = await asyncio.to_thread(self._scanner.clean, text, Source.MEMORY)
        return clean.strip()

    async def _shown(self, work: Callable[[], Awaitable[str]], limit_s: float) -> str:
        try:
            return await self.cleaned(await self.call(work, limit_s))
        except ProviderFailed as error:
            _log.warning("%s is left out: %s", self.name, error)
            return ""

    def _failed(self) -> None:
        self._failures += 1
        if self._failures >= FAILURES:
            self._rests_until = self._clock.monotonic() + REST_S
