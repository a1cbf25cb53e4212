"""What every backend that keeps workspaces promises of them while no box is over them."""

import asyncio
from pathlib import Path

import pytest

from executor_service.backends.base import WorkspaceStore, store_elsewhere
from executor_service.backends.folder_store import LocalStore, run_here
from executor_service.backends.supervisor_zipapp import build_zipapp
from executor_service.errors import WorkspaceRefused
from tests.support.boxes import Yard, open_console

MIB = 1024 * 1024
ANY_BYTES = 1 << 40
FILL = """
mkdir -p some/folder; echo kept > some/folder/file; ln -s /etc/hostname link; ln -s .. up
head -c 2000000 /dev/urandom > large; printf '#!/bin/sh\\necho ran\\n' > script; chmod 750 script
sha256sum large
"""


async def store_of(yard: Yard) -> WorkspaceStore:
    """Who looks after the backend's workspaces."""
    if yard.has_folders:
        supervisor = await asyncio.to_thread(build_zipapp)
        return LocalStore(yard.folder, run_here(yard.folder / "store", yard.folder, supervisor))
    store = store_elsewhere(yard.backend)
    assert store is not None
    return store


async def run(yard: Yard, workspace: Path, script: str) -> str:
    """What a script says in a new box over a workspace."""
    async with yard.box(workspace=workspace) as box, open_console(yard.backend, box) as console:
        return await console.output(script)


async def filled(yard: Yard, script: str = FILL) -> tuple[Path, str]:
    """A workspace that a box has left behind, and what it said."""
    spec = await asyncio.to_thread(yard.spec)
    return spec.workspace, await run(yard, spec.workspace, script)


class WorkspaceSuite:
    """Run against each backend by tests/contract/test_backends.py."""

    async def test_a_copy_has_all_and_changes_nothing_else(self, yard: Yard) -> None:
        store = await store_of(yard)
        source, digest = await filled(yard)
        target = source.with_name(f"{source.name[:20]}-copy")
        used = await store.copy(source, target, ANY_BYTES)
        assert 2_000_000 <= used < 3 * MIB
        look = "sha256sum large; cat some/folder/file; readlink link up; ./script"
        expected = f"{digest}\nkept\n/etc/hostname\n..\nran"
        assert await run(yard, target, f"{look}; echo changed > some/folder/file") == expected
        assert await run(yard, source, look) == expected
        assert await run(yard, target, "cat some/folder/file") == "changed"
        present = await store.present(source.parent)
        assert {source, target} <= set(present)
        for workspace in (source, target):
            await store.remove(workspace)

    async def test_what_cannot_be_copied_leaves_nothing(self, yard: Yard) -> None:
        store = await store_of(yard)
        source, _ = await filled(yard)
        target = source.with_name(f"{source.name[:20]}-copy")
        with pytest.raises(WorkspaceRefused, match="larger than"):
            await store.copy(source, target, MIB)
        await store.remove(target)
        present = await store.present(source.parent)
        assert source in present
        assert target not in present
        await store.remove(source)

    async def test_what_is_removed_is_gone(self, yard: Yard) -> None:
        store = await store_of(yard)
        script = "mkdir -m 700 a; touch a/file; mkfifo pipe; mkdir b; touch b/file; chmod 0 b"
        source, _ = await filled(yard, script)
        await store.remove(source)
        assert source not in await store.present(source.parent)
        await store.remove(source)
        if yard.has_folders:
            assert not await asyncio.to_thread(source.exists)
            return
        assert await run(yard, source, "ls -A") == ""
        await store.remove(source)

    async def test_only_what_is_empty_goes_by_itself(self, yard: Yard) -> None:
        store = await store_of(yard)
        (empty, _), (hidden, _) = await filled(yard, "true"), await filled(yard, "touch .hidden")
        assert await store.remove_empty([empty, hidden]) == [empty]
        present = await store.present(empty.parent)
        assert empty not in present
        assert hidden in present
        assert await run(yard, hidden, "ls -A") == ".hidden"
        await store.remove(hidden)

    async def test_a_workspace_is_measured(self, yard: Yard) -> None:
        store = await store_of(yard)
        (source, _), (empty, _) = await filled(yard), await filled(yard, "true")
        sizes = await store.measure({source: 3 * MIB, empty: 0})
        assert 2_000_000 <= sizes[source].seen_bytes < 3 * MIB
        assert sizes[source].is_all
        assert sizes[empty] == (0, True)
        too_much = await store.measure({source: MIB})
        assert not too_much[source].is_all
        await store.remove(source)
        await store.remove(empty)
