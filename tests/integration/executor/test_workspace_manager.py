"""Who looks after workspaces leaves none out, and removes what was asked for."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from executor_service.backends.folder_store import HERE, FolderStore, run_here
from executor_service.backends.supervisor_zipapp import build_zipapp, install_supervisor
from executor_service.errors import WorkspaceInUse
from executor_service.sandboxes.retention import WorkspaceCollector
from executor_service.sandboxes.workspace_manager import WorkspaceManager
from executor_service.sandboxes.workspace_stores import WorkspaceStores
from executor_service.workspaces.catalog import (
    Catalog,
    RemovalReason,
    Workspace,
    WorkspaceKind,
    WorkspaceState,
)
from executor_service.workspaces.folders import WorkdirPolicy, Workspaces
from tests.integration.executor.core import Core, open_core
from tests.support.replacement import replaced

MANY = 101
"""More than are looked at together."""
DAY_S = 24 * 3600


async def make_manager(core: Core, catalog: Catalog) -> WorkspaceManager:
    supervisor = await asyncio.to_thread(build_zipapp)
    workspaces = Workspaces(catalog.folder, WorkdirPolicy(False, core.folder, core.folder))
    store = FolderStore(HERE, run_here(core.folder, catalog.folder, supervisor))
    stores = WorkspaceStores(core.templates, store, workspaces)
    return WorkspaceManager(catalog, core.leases, stores, core.workers, core.clock, core.metrics)


async def collect(core: Core, retention_days: float = 0) -> None:
    """Looks after all workspaces once."""
    manager = await make_manager(core, core.catalog)
    collector = WorkspaceCollector(core.catalog, manager, core.clock, retention_days, core.metrics)
    await collector.collect()


async def put(core: Core, workspace_id: str, place: str, unused_s: float = 0) -> Workspace:
    """A workspace that was last used so long ago."""
    now = core.clock.now().timestamp()
    made = Workspace(
        workspace_id=workspace_id,
        kind=WorkspaceKind.WORKSPACE,
        profile="default",
        place=place,
        template="default",
        backend="plain",
        created_at=now,
        used_at=now - unused_s,
    )
    await core.catalog.put(made)
    return made


async def test_those_that_nobody_can_look_at_keep_no_other_from_being_measured(
    tmp_path: Path,
) -> None:
    async with open_core(tmp_path) as core:
        for number in range(MANY):
            await put(core, f"wsp_far{number}", "far away", unused_s=1000)
        await put(core, "wsp_near", "here", unused_s=500)
        await collect(core)
        near = core.catalog.get("wsp_near")
        assert near is not None
        assert near.measured_at == core.clock.now().timestamp()


async def test_what_is_too_old_goes_where_nobody_has_it(tmp_path: Path) -> None:
    async with open_core(tmp_path) as core:
        await put(core, "wsp_far", "far away", unused_s=5 * DAY_S)
        await put(core, "wsp_held", "here", unused_s=4 * DAY_S)
        await put(core, "wsp_old", "here", unused_s=3 * DAY_S)
        await put(core, "wsp_new", "here", unused_s=DAY_S)
        with core.catalog.hold("wsp_held"):
            await collect(core, retention_days=2)
        assert [one.workspace_id for one in core.catalog] == ["wsp_far", "wsp_held", "wsp_new"]


async def test_what_is_used_while_others_go_stays(tmp_path: Path) -> None:
    async with open_core(tmp_path) as core:
        await put(core, "wsp_first", "here", unused_s=4 * DAY_S)
        await put(core, "wsp_later", "here", unused_s=3 * DAY_S)
        remove, now = WorkspaceManager.remove, core.clock.now().timestamp()

        async def slowly(
            manager: WorkspaceManager, workspace_id: str, reason: RemovalReason
        ) -> None:
            await core.catalog.change("wsp_later", used_at=now)
            await remove(manager, workspace_id, reason)

        with replaced(WorkspaceManager, "remove", slowly):
            await collect(core, retention_days=2)
        assert [one.workspace_id for one in core.catalog] == ["wsp_later"]


@asynccontextmanager
async def used_by_another(core: Core, workspace_id: str) -> AsyncGenerator[None]:
    """A box that this executor knows nothing of is over a workspace, for the time of the block."""
    program = await asyncio.to_thread(
        lambda: install_supervisor(build_zipapp(), core.folder, str(core.folder))
    )
    command = [sys.executable, "-I", "-S", str(program), "--keep", str(core.folder)]

    async def keep(**wanted: Any) -> None:
        request = json.dumps({"key": "theirs", "owner": "another", **wanted})
        await asyncio.to_thread(
            lambda: subprocess.run(command, input=request, text=True, check=True, timeout=60)
        )

    wanted = {"folder": workspace_id, "workspace": workspace_id, "pool": "p", "secret_sha256": "s"}
    await keep(do="start", **wanted)
    try:
        yield
    finally:
        await keep(do="end")


async def test_one_that_another_executor_uses_stays_its_sessions(tmp_path: Path) -> None:
    async with open_core(tmp_path) as core:
        manager = await make_manager(core, core.catalog)
        used = await put(core, "wsp_used", "here")
        await core.catalog.assign(used, "s")
        async with used_by_another(core, "wsp_used"):
            with pytest.raises(WorkspaceInUse):
                await manager.remove(used.workspace_id, RemovalReason.ASKED)
        used = replace(used, session_ids=("s",))
        assert core.catalog.of_session("default", "s", "here") == used
        await manager.remove(used.workspace_id, RemovalReason.ASKED)
        assert core.catalog.get("wsp_used") is None
        assert core.catalog.of_session("default", "s", "here") is None


async def test_a_session_keeps_its_new_workspace_when_the_old_one_cannot_go(tmp_path: Path) -> None:
    async with open_core(tmp_path) as core:
        old, new = await put(core, "wsp_old", "here"), await put(core, "wsp_new", "here")
        await core.catalog.assign(old, "s")
        going = core.catalog.get("wsp_old")
        assert going is not None
        await core.catalog.assign(new, "s")
        await core.catalog.put(going.mark_removing(RemovalReason.ASKED))
        for catalog in (core.catalog, Catalog(core.journal, core.catalog.folder, 0)):
            await catalog.load()
            found = catalog.of_session("default", "s", "here")
            assert found is not None
            assert found.workspace_id == "wsp_new"


async def test_a_copy_that_was_never_whole_does_not_come_back(tmp_path: Path) -> None:
    async with open_core(tmp_path) as core:
        manager = await make_manager(core, core.catalog)
        half = replace(await put(core, "wsp_half", "here"), state=WorkspaceState.MAKING)
        await core.catalog.put(half)
        async with used_by_another(core, "wsp_half"):
            await manager.recover()
            await collect(core)
            assert core.catalog.get("wsp_half") == half.mark_removing(RemovalReason.UNFINISHED)
        await collect(core)
        assert core.catalog.get("wsp_half") is None
