"""Taking over what an executor before this one left: boxes, claims and commands."""

import logging
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace

from executor_service.backends.base import Box
from executor_service.boxes import LiveBox
from executor_service.commands import CommandTable
from executor_service.journal import Journal
from executor_service.leases import Leases
from executor_service.records import Claim, CommandRecord, EndReason, SandboxState
from executor_service.sandbox import Sandbox
from executor_service.spool import Spool
from executor_service.templates import Template, Templates
from executor_service.workspaces.folders import Workspaces
from executor_service.workspaces.rows import WorkspaceRows
from services.clock import Clock
from services.lifecycle import Workers

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Inheritance:
    """Where what is taken over comes from, and where it goes."""

    templates: Templates
    journal: Journal
    spool: Spool
    workspaces: Workspaces
    leases: Leases
    make_table: Callable[[str, str], CommandTable]
    """From a sandbox's id and the name of its backend."""
    clock: Clock


async def adopt(inheritance: Inheritance, workers: Workers) -> None:
    """Matches claims with boxes: both are taken over, the one without the other is ended.

    Returns once it is known which sandboxes there are; their links come up by themselves.
    """
    journal, spool = inheritance.journal, inheritance.spool
    claims = await journal.claims()
    listed = await inheritance.templates.boxes()
    boxes = {box.key: _Found(template, box) for template, box in listed}
    spool.account(await journal.stored_bytes())
    running: defaultdict[str, list[CommandRecord]] = defaultdict(list)
    for record in await journal.running_commands():
        running[record.sandbox_id].append(record)
    for claim in claims:
        wanted = claim.state is SandboxState.READY
        found = boxes.get(claim.sandbox_id)
        if not wanted or found is None or found.box.pool != found.template.name:
            found = None
        else:
            del boxes[claim.sandbox_id]
        await _adopt_claim(inheritance, claim, found, running[claim.sandbox_id])
    for found in boxes.values():
        workers.start(f"reap {found.box.key}", found.template.strays.end(found.box))
    # Before anything new is made, which would not be among what is kept.
    await spool.remove_all_but(claim.sandbox_id for claim in claims)
    folder = inheritance.workspaces.folder
    kept = {folder / name for name in await WorkspaceRows(journal).ids()}
    left = {found.box.workspace for found in boxes.values()}
    await inheritance.workspaces.sweep({*kept, *left})


@dataclass(frozen=True, slots=True)
class _Found:
    """A box, and the template whose backend has it."""

    template: Template
    box: Box


async def _adopt_claim(
    inheritance: Inheritance, claim: Claim, found: _Found | None, running: list[CommandRecord]
) -> None:
    table = inheritance.make_table(claim.sandbox_id, claim.backend)
    await table.restore(running)
    live: LiveBox | None = None
    if found is not None:
        live = found.template.pool.adopt(found.box, table)
        live.epoch = claim.epoch
        if claim.network is not None:
            live.hold(claim.network, found.template.networks)
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
