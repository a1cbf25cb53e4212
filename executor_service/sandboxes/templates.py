"""Templates: named kinds of sandbox, each with its own backend and pool."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from executor_service.backends.base import Backend, Box, Capabilities, Limits
from executor_service.errors import BackendError, BackendUnavailable
from executor_service.network.network import Networks
from executor_service.records.network_policy import NetworkPolicy
from executor_service.records.sandboxes import DEFAULT_TEMPLATE
from executor_service.sandboxes.orphan_reaper import OrphanReaper
from executor_service.sandboxes.pool import Pool
from services.errors import Draining, InvalidArgument
from services.lifecycle import all_of

_FIRST_RETRY_S = 1.0
_LONGEST_RETRY_S = 15.0
_FIRST_TRY_S = 5.0
"""How long the start waits for a template other than the default one."""
_LATER_TRY_S = 60.0

_log = logging.getLogger(__name__)


class Choice(Struct, frozen=True):
    """The chosen backend, the reason, and the backends that were tried before."""

    backend: Backend
    capabilities: Capabilities
    reason: str
    others: tuple[Capabilities, ...] = ()


async def choose(
    configured: str,
    backends: Mapping[str, Callable[[], Backend]],
    automatic: Sequence[str],
    setting: str = "terminal.backend",
) -> Choice:
    """Returns the configured backend, or the first automatic one that can be used.

    Fails with BackendUnavailable; its message names the setting and says what to do.
    """
    tried: list[Capabilities] = []
    for name in (configured,) if configured else automatic:
        backend = backends[name]()
        try:
            found = await backend.probe()
        except BaseException:
            await backend.close()
            raise
        if found.available:
            others = "; ".join(f"{one.name} cannot be used ({one.reason})" for one in tried)
            usual = "it is the default"
            reason = "it is configured" if configured else others or usual
            _log.info("sandboxes are made by %s: %s", found.name, reason)
            return Choice(backend, found, reason, tuple(tried))
        await backend.close()
        tried.append(found)
    if configured:
        raise BackendUnavailable(
            f"{setting}: {configured} cannot be used: {tried[0].reason} "
            "(Hermes never falls back to another backend; leave it out to let Hermes choose)"
        )
    reasons = "; ".join(f"{found.name}: {found.reason}" for found in tried)
    raise BackendUnavailable(f"no sandbox backend can be used here: {reasons}")


class Template(Struct, frozen=True):
    """One kind of sandbox, with its boxes."""

    name: str
    choice: Choice
    limits: Limits
    pool: Pool
    reaper: OrphanReaper
    networks: Networks
    network: NetworkPolicy = field(default_factory=NetworkPolicy)
    """What its sandboxes may reach by default."""

    @property
    def capabilities(self) -> Capabilities:
        return self.choice.capabilities

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.pool.run())
            group.create_task(self.reaper.run())


Open = Callable[[str], Awaitable[Template]]
"""Opens a template; fails with BackendUnavailable if its backend cannot be used."""
Settle = Callable[[Template, Sequence[Box]], None]
"""Takes over a template's boxes, given all of them."""


class Templates:
    """The configured templates, also those whose backend cannot be used now."""

    def __init__(self, names: Sequence[str], open_: Open) -> None:
        self._others = [name for name in names if name != DEFAULT_TEMPLATE]
        self._open_one = open_
        self._settle: Settle = _nothing_is_left
        self._open: dict[str, Template] = {}
        self._refused: dict[str, str] = {}
        """By name, why a template is not open."""
        self._draining = False
        self._ends = False

    def __iter__(self) -> Iterator[Template]:
        """The open templates, the default one first."""
        return iter(list(self._open.values()))

    @property
    def names(self) -> Sequence[str]:
        return (DEFAULT_TEMPLATE, *self._others)

    @property
    def default(self) -> Template:
        return self._open[DEFAULT_TEMPLATE]

    @property
    def refused(self) -> dict[str, str]:
        """The templates that cannot be used now, and why."""
        return dict(self._refused)

    async def open(self, settle: Settle | None = None) -> None:
        """Opens all templates and takes over their boxes; only the default one must open now."""
        self._settle = settle or _nothing_is_left
        self._put(DEFAULT_TEMPLATE, *await self._find(DEFAULT_TEMPLATE))
        # A slow backend must not delay the other templates.
        await all_of(self._try(name, _FIRST_TRY_S) for name in self._others)

    async def close(self) -> None:
        for template in self:
            await template.choice.backend.close()

    async def drain(self) -> None:
        """Stops making and handing out boxes; claimed ones stay."""
        self._draining = True
        for template in self:
            await template.pool.close()

    async def undrain(self) -> None:
        """Makes and hands out boxes again; fails with Draining while the executor stops."""
        if self._ends:
            raise Draining("this executor is stopping; start it again")
        self._draining = False
        for template in self:
            await template.pool.reopen()

    async def close_pools(self) -> None:
        """Drains for good, because the executor stops."""
        self._ends = True
        await self.drain()

    def find(self, name: str) -> Template:
        """Returns a template; fails with InvalidArgument or BackendUnavailable."""
        if template := self._open.get(name or DEFAULT_TEMPLATE):
            return template
        if why := self._refused.get(name):
            raise BackendUnavailable(f"template {name} cannot be used now: {why}")
        wanted = f"one of {', '.join(self.names)}"
        message = f"there is no template {name!r}; choose {wanted}, or add it to executor.templates"
        raise InvalidArgument(message, fields={"template": wanted})

    async def wait_free(self, folder: Path) -> None:
        for template in self:
            await template.pool.boxes.wait_free(folder)
            await template.reaper.wait_free(folder)

    def find_by_box(self, box: Box) -> Template:
        return self._open[box.pool]

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for template in self:
                group.create_task(template.run())
            for name in self.refused:
                group.create_task(self._run_late(name))

    async def _run_late(self, name: str) -> None:
        """Opens and runs a template that could not be opened at the start."""
        retry_s = _FIRST_RETRY_S
        while True:
            template = await self._try(name, _LATER_TRY_S)
            if template is not None:
                return await template.run()
            await asyncio.sleep(retry_s)
            retry_s = min(2 * retry_s, _LONGEST_RETRY_S)

    async def _try(self, name: str, patience_s: float) -> Template | None:
        try:
            async with asyncio.timeout(patience_s):
                template, boxes = await self._find(name)
        except (BackendError, TimeoutError) as error:
            why = str(error) or f"its backend did not answer within {patience_s:g} s"
            if self._refused.get(name) != why:
                _log.warning("template %s cannot be used: %s", name, why)
            self._refused[name] = why
            return None
        # From here on undrain and close find it.
        self._put(name, template, boxes)
        if self._draining:
            await template.pool.close()
        return template

    async def _find(self, name: str) -> tuple[Template, Sequence[Box]]:
        """Opens a template and lists its boxes; fails with BackendError."""
        template = await self._open_one(name)
        try:
            return template, await template.reaper.boxes()
        except BaseException:
            await template.choice.backend.close()
            raise

    def _put(self, name: str, template: Template, boxes: Sequence[Box]) -> None:
        self._refused.pop(name, None)
        self._open[name] = template
        self._settle(template, boxes)


def _nothing_is_left(template: Template, boxes: Sequence[Box]) -> None:
    pass
