"""What is forgotten, and when."""

import asyncio
from pathlib import Path

import pytest

from executor_service.link.messages import StartCommand
from executor_service.sandboxes.retention import Retention
from services.errors import DatabaseUnavailable, NotFound
from tests.integration.executor.core import Core, full_disk, open_core, start
from tests.support.executors import until

KIB = 1024


def retention(core: Core) -> Retention:
    return Retention(core.journal, core.spool, core.leases, core.clock, core.metrics)


async def folders(core: Core) -> set[str]:
    """The commands of which output is on disk."""
    found = await asyncio.to_thread(lambda: list((core.folder / "spool").glob("*/*")))
    return {path.name.removeprefix("c-") for path in found}


async def until_noted(core: Core, *exec_ids: str) -> None:
    async def are_noted() -> bool:
        ended = [record for record in await core.journal.commands() if record.exit]
        return set(exec_ids) <= {record.exec_id for record in ended}

    await until(are_noted)


async def test_commands_are_kept_for_a_day(tmp_path: Path) -> None:
    async with open_core(tmp_path) as core:
        grant = await core.acquire()
        keeper = retention(core)
        await start(grant, "sleep", "60", exec_id="runs")
        await (await start(grant, "echo", "early", exec_id="early")).ended.wait()
        await until_noted(core, "early")
        core.clock.step_wall(12 * 3600)
        await (await start(grant, "echo", "late", exec_id="late")).ended.wait()
        await until_noted(core, "late")
        await keeper.forget_old()
        assert await folders(core) == {"early", "late"}
        core.clock.step_wall(12.1 * 3600)
        await keeper.forget_old()
        assert await folders(core) == {"late"}
        assert core.metric("hermes_spool_bytes") == core.spool.stored_bytes == 5
        known = await core.journal.commands()
        assert {record.exec_id for record in known} == {"runs", "late"}
        table = await grant.sandbox.commands()
        assert [record.exec_id for record in table.list()] == ["runs", "late"]


async def test_what_cannot_be_noted_is_accounted_once(tmp_path: Path) -> None:
    async with open_core(tmp_path) as core:
        grant = await core.acquire()
        for name, letters in (("early", "12345"), ("late", "1")):
            await (await start(grant, "echo", letters, exec_id=name)).ended.wait()
            await until_noted(core, name)
            core.clock.step_wall(13 * 3600)
        for _ in range(2):
            with full_disk(), pytest.raises(DatabaseUnavailable):
                await retention(core).forget_old()
            assert core.spool.stored_bytes == 2
        await retention(core).forget_old()
        assert await folders(core) == {"late"}


async def test_sandboxes_are_kept_for_a_day_after_their_end(tmp_path: Path) -> None:
    async with open_core(tmp_path) as core:
        grant = await core.acquire()
        await (await start(grant, "echo", "x", exec_id="x")).ended.wait()
        await until_noted(core, "x")
        await core.leases.release(grant.sandbox)
        claim = grant.sandbox.claim
        core.clock.step_wall(23 * 3600)
        await retention(core).forget_old()
        assert core.leases.find(claim.profile, claim.sandbox_id) is grant.sandbox
        assert await folders(core) == {"x"}
        core.clock.step_wall(2 * 3600)
        await retention(core).forget_old()
        with pytest.raises(NotFound):
            core.leases.find(claim.profile, claim.sandbox_id)
        assert await core.journal.claims() == []
        assert await folders(core) == set()
        assert core.spool.stored_bytes == 0
        assert core.catalog.of_session(claim.profile, claim.session_id, "here")


async def test_too_much_output_goes_the_oldest_first_and_that_of_what_runs_last(
    tmp_path: Path,
) -> None:
    async with open_core(tmp_path) as core:
        grant = await core.acquire()
        connection = grant.sandbox.get_connection()
        script = "head -c 380000 /dev/zero; sleep 60"
        running = await connection.start(StartCommand("runs", ("sh", "-c", script)))
        for number in range(12):
            name = f"c{number:02}"
            core.clock.step_wall(60)
            command = await start(grant, "head", "-c", "380000", "/dev/zero", exec_id=name)
            await command.ended.wait()
            await until_noted(core, name)
        assert core.spool.over_budget.is_set()
        await retention(core).make_room()
        assert not core.spool.over_budget.is_set()
        assert await folders(core) == {"runs", *(f"c{number:02}" for number in range(2, 12))}
        table = await grant.sandbox.commands()
        for exec_id, start_of_rest in (("c00", 380_000), ("c11", 0)):
            command = await table.get(exec_id)
            assert (await command.spool.read(1, 0, 10))[0] == start_of_rest
        record = next(one for one in await core.journal.commands() if one.exec_id == "c00")
        assert record.exit is not None
        assert (record.exit.truncated, record.exit.totals[0]) == (True, 380_000)
        assert running.spool.stored_bytes == 380_000
        running.cancel()
        await running.ended.wait()


async def test_what_runs_is_shortened_when_nothing_else_is_left(tmp_path: Path) -> None:
    async with open_core(tmp_path) as core:
        grant = await core.acquire()
        connection = grant.sandbox.get_connection()
        script = "head -c 380000 /dev/zero; sleep 60"
        commands = [
            await connection.start(StartCommand(f"r{n}", ("sh", "-c", script))) for n in range(12)
        ]
        await until(lambda: all(command.spool.end(1) == 380_000 for command in commands))
        for command in commands:
            await command.spool.flush()
        assert core.spool.over_budget.is_set()
        await retention(core).make_room()
        assert not core.spool.over_budget.is_set()
        for command in commands:
            assert (await command.spool.read(1, 0, 10))[0] == 0
            assert (await command.spool.read(1, 379_999, 10))[1] == b"\0"
            command.cancel()
            await command.ended.wait()
