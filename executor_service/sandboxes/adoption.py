"""Taking over the boxes, claims and commands of the previous executor."""

import logging
from collections import defaultdict
from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from executor_service.backends.base import Box
from executor_service.execs.exec_registry import ExecRegistry
from executor_service.execs.spool import Spool
from executor_service.journal import Journal
from executor_service.records.sandboxes import Claim, CommandRecord, SandboxState
from executor_service.sandboxes.leases import Leases
from executor_service.sandboxes.sandbox import Sandbox
from executor_service.sandboxes.templates import Template, Templates
from services.clock import Clock
from services.lifecycle import Workers

_log = logging.getLogger(__name__)


class Adoption(Struct, frozen=True):
    """Matches claims with boxes. A pair is taken over; a claim or box without the other is ended.

    Until a template's backend has listed its boxes, its sandboxes are awaited: neither present nor
    lost. They are awaited no longer than a box lives without an executor.
    """

    templates: Templates
    journal: Journal
    spool: Spool
    leases: Leases
    make_registry: Callable[[str, str], ExecRegistry]
    """Takes a sandbox's id and the name of its backend."""
    orphan_timeout_s: float
    """How long a box lives without an executor."""
    workers: Workers
    clock: Clock

    async def begin(self) -> None:
        """Restores the claims, before any backend is asked and any box is made."""
        claims = await self.journal.claims()
        known: defaultdict[str, list[CommandRecord]] = defaultdict(list)
        for record in await self.journal.commands():
            known[record.sandbox_id].append(record)
        for claim in claims:
            registry = self.make_registry(claim.sandbox_id, claim.backend)
            await registry.restore(known[claim.sandbox_id])
            sandbox = Sandbox(self._as_of_now(claim), registry, None, self.clock)
            if claim.state is SandboxState.READY and claim.template in self.templates.names:
                sandbox.await_box(self.orphan_timeout_s)
            else:
                sandbox.miss_box()
            self.leases.restore(sandbox)
        await self.spool.remove_all_but(claim.sandbox_id for claim in claims)

    def _as_of_now(self, claim: Claim) -> Claim:
        """Converts a claim to this boot's monotonic time, by the wall clock after a reboot."""
        if claim.boot_id and claim.boot_id == self.journal.boot_id:
            return claim
        age_s = max(0.0, self.clock.now().timestamp() - claim.claimed_at)
        begun_s = self.clock.monotonic() - age_s
        return replace(claim, begun_s=begun_s, boot_id=self.journal.boot_id)

    def settle(self, template: Template, boxes: Sequence[Box]) -> None:
        """Takes over a template's boxes, given all of them; their links connect by themselves."""
        awaited = {
            sandbox.claim.sandbox_id: sandbox
            for sandbox in self.leases
            if sandbox.is_awaited and sandbox.claim.template == template.name
        }
        for box in boxes:
            sandbox = awaited.pop(box.key, None) if box.pool == template.name else None
            if sandbox is None:
                self.workers.start(f"reap {box.key}", template.reaper.end(box))
            else:
                _take_over(template, box, sandbox)
        for sandbox in awaited.values():
            _log.warning("sandbox %s was lost while no executor ran", sandbox.claim.sandbox_id)
            sandbox.miss_box()


def _take_over(template: Template, box: Box, sandbox: Sandbox) -> None:
    claim, registry = sandbox.claim, sandbox.registry
    connection = template.pool.boxes.adopt(box, registry)
    connection.epoch = claim.epoch
    if claim.network is not None:
        connection.set_policy(claim.network, template.networks)
    sandbox.find_box(connection)
    _log.info("sandbox %s is taken over with %d commands", claim.sandbox_id, len(registry.running))
