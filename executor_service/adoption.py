"""Taking over what an executor before this one left: boxes, claims and commands."""

import logging
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace

from executor_service.backends.base import Backend, Box
from executor_service.boxes import LiveBox
from executor_service.commands import CommandTable
from executor_service.journal import Journal
from executor_service.leases import Leases
from executor_service.pool import Pool
from executor_service.records import Claim, CommandRecord, EndReason, SandboxState
from executor_service.sandbox import Sandbox
from executor_service.spool import Spool
from executor_service.strays import Strays
from executor_service.workspaces import Workspaces
from services.clock import Clock
from services.lifecycle import Workers

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Inheritance:
    """Where what is taken over comes from, and where it goes."""

    backend: Backend
    journal: Journal
    spool: Spool
    workspaces: Workspaces
    pool: Pool
    strays: Strays
    leases: Leases
    make_table: Callable[[str], CommandTable]
    clock: Clock


async def adopt(inheritance: Inheritance, workers: Workers) -> None:
    """Matches claims with boxes: both are taken over, the one without the other is ended.

    Returns once it is known which sandboxes there are; their links come up by themselves.
    """
    journal, spool = inheritance.journal, inheritance.spool
    claims = await journal.claims()
    boxes = {box.key: box for box in await inheritance.backend.list_boxes()}
    spool.account(await journal.stored_bytes())
    running: defaultdict[str, list[CommandRecord]] = defaultdict(list)
    for record in await journal.running_commands():
        running[record.sandbox_id].append(record)
    for claim in claims:
        wanted = claim.state is SandboxState.READY
        box = boxes.pop(claim.sandbox_id, None) if wanted else None
        await _adopt_claim(inheritance, claim, box, running[claim.sandbox_id])
    for box in boxes.values():
        workers.start(f"reap {box.key}", inheritance.strays.end(box))
    # Before anything new is made, which would not be among what is kept.
    await spool.remove_all_but(claim.sandbox_id for claim in claims)
    folders = await journal.workspaces()
    await inheritance.workspaces.sweep({*folders, *(box.workspace for box in boxes.values())})


async def _adopt_claim(
    inheritance: Inheritance, claim: Claim, box: Box | None, running: list[CommandRecord]
) -> None:
    table = inheritance.make_table(claim.sandbox_id)
    await table.restore(running)
    live: LiveBox | None = None
    if box is not None:
        live = inheritance.pool.adopt(box, table)
        live.epoch = claim.epoch
        _log.info("sandbox %s is taken over with %d commands", claim.sandbox_id, len(running))
    elif claim.state is SandboxState.READY:
        now = inheritance.clock.now().timestamp()
        claim = replace(claim, state=SandboxState.LOST, ended_at=now)
        await inheritance.journal.put_claim(claim)
        _log.warning("sandbox %s was lost while no executor ran", claim.sandbox_id)
    if live is None:
        was_lost = claim.state is SandboxState.LOST
        table.give_up(EndReason.SANDBOX_LOST if was_lost else EndReason.LEASE_EXPIRED)
    inheritance.leases.restore(Sandbox(claim, table, live, inheritance.clock))
