"""The executor's memory on disk."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from executor_service.errors import JournalUnusable
from executor_service.journal import Journal
from executor_service.records.sandboxes import (
    Claim,
    CommandRecord,
    EndReason,
    Exit,
    Isolation,
    Lifetimes,
    SandboxState,
)
from executor_service.workspaces.catalog import Catalog, Workspace, WorkspaceKind
from services.errors import DatabaseUnavailable
from tests.integration.executor.core import full_disk

CLAIM = Claim(
    sandbox_id="sbx_1",
    profile="default",
    session_id="s",
    backend="bubblewrap",
    isolation=Isolation.NAMESPACE,
    workspace="/home/w/wsp_1",
    claimed_at=1000.5,
    begun_s=3.5,
    boot_id="boot",
    lifetimes=Lifetimes(60, 3600),
    epoch=2,
    request_id="acq_1",
)
WORKSPACE = Workspace(
    "wsp_1", WorkspaceKind.WORKSPACE, "default", "here", "default", "plain", 2.0, 3.0
)
EXIT = Exit(EndReason.TIMEOUT, (10, 20), 0, 1500, signal=9, truncated=True)


def record(exec_id: str, ended_at: float | None = None, stored_bytes: int = 0) -> CommandRecord:
    ended = EXIT if ended_at else None
    return CommandRecord("sbx_1", exec_id, "digest", 5.0, ended_at, ended, stored_bytes)


async def test_claims_come_back_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "state" / "journal.db"
    async with Journal(path) as journal:
        owner = journal.owner
        await journal.put_claim(CLAIM)
        await journal.put_claim(replace(CLAIM, sandbox_id="sbx_0", claimed_at=1.0))
        await journal.put_claim(replace(CLAIM, state=SandboxState.LOST, ended_at=7.0))
    async with Journal(path) as journal:
        assert journal.owner == owner
        older, newer = await journal.claims()
        assert (older.sandbox_id, older.state) == ("sbx_0", SandboxState.READY)
        assert newer == replace(CLAIM, state=SandboxState.LOST, ended_at=7.0)
        await journal.forget_sandbox("sbx_1")
        assert [claim.sandbox_id for claim in await journal.claims()] == ["sbx_0"]


async def catalog_of(journal: Journal, folder: Path) -> Catalog:
    """What is written down of workspaces."""
    catalog = Catalog(journal, folder, 0)
    await catalog.load()
    return catalog


async def test_a_session_has_one_workspace_in_a_place(tmp_path: Path) -> None:
    other = replace(WORKSPACE, workspace_id="wsp_2")
    async with Journal(tmp_path / "journal.db") as journal:
        catalog = await catalog_of(journal, tmp_path)
        for workspace, session_id in ((WORKSPACE, "s"), (WORKSPACE, "t"), (other, "s")):
            await catalog.assign(workspace, session_id)
    async with Journal(tmp_path / "journal.db") as journal:
        catalog = await catalog_of(journal, tmp_path)
        kept, new = sorted(catalog, key=lambda one: one.workspace_id)
        assert (kept.session_ids, new.session_ids) == (("t",), ("s",))
        assert catalog.of_session("default", "s", "here") == new
        assert catalog.of_session("other", "s", "here") is None
        assert catalog.of_session("default", "s", "elsewhere") is None
        await catalog.forget("wsp_2")
        assert catalog.of_session("default", "s", "here") is None


async def test_commands_come_back_as_they_were(tmp_path: Path) -> None:
    async with Journal(tmp_path / "journal.db") as journal:
        await journal.put_commands([record("a"), record("d"), record("b", 20.0, 300)])
        await journal.put_commands([record("a", 10.0, 100)])
        known = [record("a", 10.0, 100), record("b", 20.0, 300), record("d")]
        assert await journal.commands() == known
        await journal.forget_command("sbx_1", "a")
        assert await journal.commands() == known[1:]
        await journal.forget_sandbox("sbx_1")
        assert await journal.commands() == []


_WRITER = """
import asyncio, os, sys
from pathlib import Path
from executor_service.journal import Journal
from tests.integration.executor.test_journal import CLAIM, WORKSPACE, catalog_of, record

async def main():
    async with Journal(Path(sys.argv[1])) as journal:
        await (await catalog_of(journal, Path())).assign(WORKSPACE, "s")
        await journal.put_claim(CLAIM)
        await journal.put_commands([record("a", 3.0), record("b")])
        print("written", flush=True)
        await asyncio.sleep(60)

asyncio.run(main())
"""


def write_and_die(path: Path) -> None:
    """Have another process write, and kill it in the middle of its life."""
    with subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(path)], stdout=subprocess.PIPE, cwd=Path.cwd()
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"written\n"
        with pytest.raises(JournalUnusable, match="another executor uses"):
            asyncio.run(_open(path))
        os.kill(writer.pid, signal.SIGKILL)


async def _open(path: Path) -> None:
    async with Journal(path):
        pass


def test_one_process_at_a_time_and_its_death_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    write_and_die(path)

    async def look() -> None:
        async with Journal(path) as journal:
            assert await journal.claims() == [CLAIM]
            assert await journal.commands() == [record("a", 3.0), record("b")]
            catalog = await catalog_of(journal, tmp_path)
            assert list(catalog) == [replace(WORKSPACE, session_ids=("s",))]

    asyncio.run(look())


@pytest.fixture
def unusable(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A journal that cannot be used, for the reason of the test's parameter."""
    path = tmp_path / "journal.db"
    match request.param:
        case "damaged":
            path.write_bytes(b"this is no database" * 1000)
        case "later":
            with sqlite3.connect(path) as connection:
                connection.execute("PRAGMA user_version = 99")
            connection.close()
        case _:
            (tmp_path / "file").write_text("")
            path = tmp_path / "file" / "journal.db"
    return path


@pytest.mark.parametrize(
    ("unusable", "why"),
    [("damaged", "not a database"), ("later", "another version"), ("hidden", "File exists|Not a")],
    indirect=["unusable"],
)
async def test_what_cannot_be_used_says_what_to_do(unusable: Path, why: str) -> None:
    with pytest.raises(JournalUnusable, match=why) as caught:
        await _open(unusable)
    assert "\n" not in caught.value.message
    assert "move it away" in caught.value.message


async def test_a_full_disk_is_told_and_got_over(tmp_path: Path) -> None:
    async with Journal(tmp_path / "journal.db") as journal:
        await journal.put_claim(CLAIM)
        with full_disk(), pytest.raises(DatabaseUnavailable, match="cannot be written"):
            await journal.put_claim(replace(CLAIM, epoch=3))
        assert await journal.claims() == [CLAIM]
        await journal.put_claim(replace(CLAIM, epoch=3))
        assert await journal.claims() == [replace(CLAIM, epoch=3)]
