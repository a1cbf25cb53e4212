"""How long sandboxes live, whose they are, and what becomes of them; by a clock of our own."""

import asyncio
import sqlite3
import threading
from pathlib import Path

import pytest
from msgspec.structs import replace

from executor_service.backends.base import WorkspacePlace
from executor_service.errors import BackendUnavailable, PathInvalid, SandboxLost
from executor_service.execs.exec_registry import ExecRegistry
from executor_service.journal import Journal
from executor_service.records.sandboxes import (
    Claim,
    CommandRecord,
    EndReason,
    Lifetimes,
    SandboxState,
)
from executor_service.sandboxes.leases import Grant
from executor_service.sandboxes.sandbox import Proof, Sandbox
from executor_service.workspaces.folders import WorkdirPolicy, Workspaces
from services.errors import LeaseInvalid, NotFound, StaleEpoch
from tests.fakes.plain_backend import NAME
from tests.integration.executor.core import LIFETIMES, OPTIONS, Core, full_disk, open_core, start
from tests.support.executors import until


def proof(grant: Grant, **changes: object) -> Proof:
    claim = grant.sandbox.claim
    usual = Proof(claim.profile, claim.sandbox_id, grant.token, claim.epoch)
    return replace(usual, **changes)  # pyright: ignore[reportArgumentType]


async def until_gone(core: Core, sandbox: Sandbox) -> None:
    await until(lambda: sandbox.claim.sandbox_id not in core.backend.keys)


async def test_each_use_begins_the_idle_time_anew(tmp_path: Path) -> None:
    async with open_core(tmp_path) as core:
        grant = await core.acquire()
        for _ in range(3):
            await core.clock.advance(50)
            assert core.leases.authorize(proof(grant)) is grant.sandbox
        assert grant.sandbox.expires_in_s == 60
        await core.clock.advance(59)
        assert grant.sandbox.state is SandboxState.READY
        assert list(core.leases) == [grant.sandbox]
        await core.clock.advance(2)
        assert grant.sandbox.state is SandboxState.RELEASED
        await until_gone(core, grant.sandbox)
        await until(lambda: not list(core.leases))
        assert core.leases.remembered == [grant.sandbox]
        with pytest.raises(LeaseInvalid):
            grant.sandbox.get_connection()
        # Being asked about does not bring it back.
        assert core.leases.authorize(proof(grant)).expires_in_s == 0


async def test_a_running_command_is_use(tmp_path: Path) -> None:
    async with open_core(tmp_path) as core:
        grant = await core.acquire()
        command = await start(grant, "sleep", "60")
        await core.clock.advance(500)
        assert grant.sandbox.state is SandboxState.READY
        command.cancel()
        await command.ended.wait()
        await core.clock.advance(61)
        assert grant.sandbox.state is SandboxState.RELEASED


async def test_age_ends_it_in_any_case(tmp_path: Path) -> None:
    async with open_core(tmp_path) as core:
        grant = await core.acquire(lifetimes=Lifetimes(0, 100))
        command = await start(grant, "sleep", "60")
        await core.clock.advance(99)
        assert grant.sandbox.expires_in_s == 1
        await core.clock.advance(2)
        async with asyncio.timeout(10):
            await command.ended.wait()
        assert command.record.exit is not None
        assert command.record.exit.reason is EndReason.LEASE_EXPIRED
        assert grant.sandbox.state is SandboxState.RELEASED


async def test_the_wall_clock_may_be_set(tmp_path: Path) -> None:
    async with open_core(tmp_path) as core:
        grant = await core.acquire()
        for seconds in (-600, 1200, -86_400, 86_400 * 3):
            core.clock.step_wall(seconds)
            await core.clock.advance(2)
            assert grant.sandbox.state is SandboxState.READY
            assert 0 < core.leases.authorize(proof(grant)).expires_in_s <= LIFETIMES.idle_s


async def test_a_new_owner_may_want_other_times(tmp_path: Path) -> None:
    async with open_core(tmp_path) as core:
        first = await core.acquire("s", lifetimes=Lifetimes(5, 0))
        assert first.sandbox.claim.lifetimes == Lifetimes(5, LIFETIMES.total_s)
        second = await core.acquire("s", lifetimes=Lifetimes(50, 500))
        assert second.sandbox.claim.lifetimes == Lifetimes(50, 500)
        third = await core.acquire("s")
        assert third.sandbox.claim.lifetimes == Lifetimes(50, 500)


async def test_proofs_are_checked_in_order(tmp_path: Path) -> None:
    async with open_core(tmp_path) as core:
        first = await core.acquire("s")
        old = proof(first)
        second = await core.acquire("s")
        with pytest.raises(StaleEpoch):
            core.leases.authorize(old)
        with pytest.raises(LeaseInvalid):
            core.leases.authorize(replace(old, token=second.token))
        with pytest.raises(LeaseInvalid):
            core.leases.authorize(proof(second, epoch=1))
        for changes in ({"profile": "other"}, {"sandbox_id": "sbx"}):
            with pytest.raises(NotFound):
                core.leases.authorize(proof(second, token="wrong", epoch=7, **changes))
        assert core.leases.authorize(proof(second)) is second.sandbox


async def test_one_whose_backend_never_answers_is_lost_once_its_box_must_have_ended(
    tmp_path: Path,
) -> None:
    async with open_core(tmp_path) as core:
        other = await core.acquire()
        claim = replace(other.sandbox.claim, sandbox_id="sbx_awaited", session_id="s")
        table = ExecRegistry(claim.sandbox_id, NAME, core.stores)
        await table.restore([CommandRecord(claim.sandbox_id, "exc_x", "digest", claim.claimed_at)])
        awaited = Sandbox(claim, table, None, core.clock)
        awaited.await_box(1800)
        core.leases.restore(awaited)
        # It may be that it lives, and nobody can use it meanwhile.
        await core.clock.advance(1799)
        assert awaited.state is SandboxState.READY
        token = core.journal.lease_token(claim.sandbox_id, claim.epoch)
        shown = proof(other, sandbox_id=claim.sandbox_id, token=token)
        assert core.leases.authorize(shown) is awaited
        for asked in (
            core.acquire("s", wait_s=0.1),
            core.leases.release(awaited),
            awaited.command("exc_x"),
        ):
            with pytest.raises(BackendUnavailable, match="does not answer yet"):
                await asked
        with pytest.raises(BackendUnavailable):
            awaited.get_connection()
        assert len(table.running) == 1
        await core.clock.advance(2)
        assert awaited.state is SandboxState.LOST
        new = await core.acquire("s")
        assert new.sandbox.claim.sandbox_id != claim.sandbox_id
        assert awaited.claim.state is SandboxState.LOST
        ended = (await awaited.command("exc_x")).record.exit
        assert ended is not None
        assert ended.reason is EndReason.SANDBOX_LOST


async def test_a_sandbox_outlives_an_outage_of_its_backend(tmp_path: Path) -> None:
    async with open_core(tmp_path) as core:
        grant = await core.acquire("s")
        sandbox, gate = grant.sandbox, tmp_path / "gate"
        script = f"until [ -e {gate} ]; do sleep 0.05; done; echo after"
        command = await start(grant, "/bin/sh", "-c", script)
        core.backend.is_away = True
        await core.backend.cut()

        connection = sandbox.get_connection()
        await until(lambda: connection.is_unreachable)
        for asked in (
            connection.link(),
            core.acquire("s"),
            core.leases.release(sandbox),
            sandbox.command("x"),
        ):
            with pytest.raises(BackendUnavailable, match="does not answer"):
                await asked
        await core.leases.release_idle()
        assert sandbox.state is SandboxState.READY
        assert sandbox.running == [command]
        await asyncio.to_thread(gate.touch)
        core.backend.is_away = False
        await until(lambda: command.ended.is_set() and not connection.is_unreachable)
        assert (await command.spool.read(1, 0, 100))[1] == b"after\n"
        again = await core.acquire("s")
        assert again.sandbox is sandbox


async def test_a_sandbox_whose_backend_stays_away_is_lost_when_its_box_has_ended(
    tmp_path: Path,
) -> None:
    async with open_core(tmp_path, replace(OPTIONS, orphan_timeout_s=1.0)) as core:
        grant = await core.acquire("s")
        core.backend.is_away = True
        await core.backend.cut()
        await until(lambda: grant.sandbox.state is SandboxState.LOST)
        core.backend.is_away = False
        with pytest.raises(SandboxLost):
            await grant.sandbox.get_connection().link()


async def test_the_loss_is_noted_when_nobody_asks(tmp_path: Path) -> None:
    async with open_core(tmp_path) as core:
        grant = await core.acquire("s")
        core.backend.kill(grant.sandbox.claim.sandbox_id)
        await until_gone(core, grant.sandbox)
        await core.clock.advance(2)

        async def is_noted() -> bool:
            (claim,) = await core.journal.claims()
            return claim.ended_at is not None

        await until(is_noted)
        assert grant.sandbox.claim.state is SandboxState.LOST


async def test_a_folder_of_the_host_is_not_bound_in_sandboxes_elsewhere(tmp_path: Path) -> None:
    for place in (WorkspacePlace.THERE, WorkspacePlace.IN_BOX):
        policy = WorkdirPolicy(True, tmp_path / "home", tmp_path / "user")
        with pytest.raises(PathInvalid, match="the sandboxes are elsewhere"):
            await Workspaces(tmp_path, policy).workdir(str(tmp_path), place)


async def test_what_is_idle_can_be_let_go(tmp_path: Path) -> None:
    async with open_core(tmp_path) as core:
        idle, busy = await core.acquire(), await core.acquire()
        await start(busy, "sleep", "60")
        await core.leases.release_idle()
        assert idle.sandbox.state is SandboxState.RELEASED
        assert busy.sandbox.state is SandboxState.READY
        assert core.backend.keys == [busy.sandbox.claim.sandbox_id]


async def test_what_is_being_acquired_is_let_go_too(tmp_path: Path) -> None:
    async with open_core(tmp_path) as core:
        core.backend.gate.clear()
        acquiring = asyncio.ensure_future(core.acquire())
        await asyncio.sleep(0.05)
        await core.pool.close()
        letting_go = asyncio.ensure_future(core.leases.release_idle())
        await asyncio.sleep(0.05)
        core.backend.gate.set()
        await letting_go
        assert (await acquiring).sandbox.state is SandboxState.RELEASED
        assert core.backend.keys == []


async def test_what_ended_last_is_noted_before_its_box_goes(tmp_path: Path) -> None:
    async with open_core(tmp_path) as core:
        grant = await core.acquire()
        sandbox_id = grant.sandbox.claim.sandbox_id
        with full_disk():
            command = await start(grant, "sh", "-c", "exit 3")
            await command.ended.wait()
            grant.sandbox.get_connection().retire(EndReason.LEASE_EXPIRED)
            await asyncio.sleep(0.3)
            assert core.backend.keys == [sandbox_id]
        await until_gone(core, grant.sandbox)
        (noted,) = await core.journal.commands()
        assert noted.exit is not None
        assert (noted.exit, noted.exit.code) == (command.record.exit, 3)


async def test_a_full_disk_keeps_no_box_for_ever(tmp_path: Path) -> None:
    async with open_core(tmp_path) as core:
        grant = await core.acquire()
        with full_disk():
            command = await start(grant, "true")
            await command.ended.wait()
            grant.sandbox.get_connection().retire(EndReason.LEASE_EXPIRED)
            await until_gone(core, grant.sandbox)
            assert await core.journal.commands() == []


async def test_a_workspace_has_one_box_at_a_time(tmp_path: Path) -> None:
    async with open_core(tmp_path) as core:
        first = await core.acquire("ses_one")
        core.backend.lets_go.clear()
        leaving = asyncio.ensure_future(core.leases.release(first.sandbox))
        await asyncio.sleep(0.1)
        leaving.cancel()
        await asyncio.wait([leaving])
        coming = asyncio.ensure_future(core.acquire("ses_one"))
        await asyncio.sleep(0.1)
        assert core.backend.keys == [first.sandbox.claim.sandbox_id]
        core.backend.lets_go.set()
        second = await coming
        assert core.backend.keys == [second.sandbox.claim.sandbox_id]
        assert first.sandbox.connection is None


class SlowJournal(Journal):
    """A journal on a disk that takes its time over one claim."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.writing, self.written = threading.Event(), threading.Event()

    async def put_claim(self, claim: Claim) -> None:
        def slowly(_db: sqlite3.Connection) -> None:
            self.writing.set()
            self.written.wait(20)

        await self.write(slowly)
        await super().put_claim(claim)


async def test_who_leaves_while_a_claim_is_written_leaves_the_workspace(tmp_path: Path) -> None:
    async with open_core(tmp_path, open_journal=SlowJournal) as core:
        journal = core.journal
        assert isinstance(journal, SlowJournal)
        leaving = asyncio.ensure_future(core.acquire("ses_one"))
        await asyncio.to_thread(journal.writing.wait, 20)
        leaving.cancel()
        await asyncio.sleep(0.1)
        journal.written.set()
        await asyncio.wait([leaving])
        grant = await core.acquire("ses_one")
        await asyncio.sleep(0.5)
        assert len(core.backend.keys) == len(await core.journal.claims()) == 1
        command = await start(grant, "/bin/sh", "-c", "echo hi > f")
        await command.ended.wait()
        assert command.record.exit is not None
        assert command.record.exit.code == 0
