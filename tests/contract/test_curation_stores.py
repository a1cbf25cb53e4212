"""Every store of skills is looked after in the same way: changed as one, backed up, given back."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import cast

import pytest
from msgspec.structs import replace

from agent_service.assembly.curation import Curations
from agent_service.assembly.stores import Stores
from agent_service.profiles.curation.curation import JOURNAL as PATH
from agent_service.profiles.curation.curation import Curation, Order
from agent_service.profiles.curation.planner import CurationPlanner
from agent_service.profiles.skills.files import FileRefused, SkillFiles
from agent_service.profiles.skills.usage import UsageFile
from services.clock import SystemClock
from services.database.leases import Fenced
from services.errors import ServiceUnavailable, StaleEpoch
from tests.contract.test_bundled_skills import Killable, Killed
from tests.support.curation import plan
from tests.support.profile_stores import stores
from tests.support.skills import document

MOST = 1_000_000
ORDER = Order("one", plan=plan("mail-send -> mail-read"), epoch=1)


@pytest.fixture
async def opened(profiles_url: str, tmp_path: Path) -> AsyncIterator[Stores]:
    """Each store in turn, with a small library."""
    async with stores(profiles_url, tmp_path) as found:
        files = found.skills("default")
        async with files.locked():
            for name in ("mail-read", "mail-send"):
                await files.write(f"{name}/SKILL.md", document(name).encode())
                await files.write(f"{name}/references/{name}.md", name.encode())
        yield found


def curation(opened: Stores) -> Curation:
    return Curation(opened.skills("default"), opened.reports("default"), SystemClock())


async def held(files: SkillFiles) -> Mapping[str, bytes | None]:
    """What a library holds but the curator's own files."""
    paths = [path for path in await files.tree() if not path.startswith((".curator_", ".usage"))]
    return {path: await files.read(path, MOST) for path in paths}


async def test_a_run_is_made_reported_and_taken_back(opened: Stores) -> None:
    files, reports = opened.skills("default"), opened.reports("default")
    before = await held(files)
    report = await curation(opened).apply(ORDER)
    assert report.summary == "skills: 1 merged"
    assert set(await held(files)) == {
        *("mail-read/SKILL.md", "mail-read/references/mail-read.md"),
        *("mail-read/references/mail-send.md", ".archive/mail-send/SKILL.md"),
        ".archive/mail-send/references/mail-send.md",
    }
    usage = UsageFile.parse(await files.read(".usage.json", MOST))
    assert usage.get("mail-send").state.value == "archived"
    folder = report.path.split("/")[-2]
    assert {f"{folder}/REPORT.md", f"{folder}/run.json"} <= set(await reports.tree())
    assert await curation(opened).apply(ORDER) == report
    assert await curation(opened).reports(5) == [report]
    await curation(opened).restore("two", report.backup_id)
    assert await held(files) == before
    state, backup_ids = await curation(opened).state()
    assert (state.run_count, len(backup_ids)) == (1, 2)


async def test_a_run_that_dies_at_any_change_leaves_either_library(opened: Stores) -> None:
    files, reports = opened.skills("default"), opened.reports("default")
    before = await held(files)
    report = await curation(opened).apply(ORDER)
    after = await held(files)
    seen: set[bool] = set()
    changes = 0
    for changes in range(100):
        await curation(opened).restore(f"back-{changes}", report.backup_id)
        assert await held(files) == before
        killable = Killable(files, changes)
        order = Order(f"run-{changes}", plan=ORDER.plan, epoch=changes + 2)
        try:
            await Curation(killable, Sharing(reports, killable), SystemClock()).apply(order)
        except Killed:
            await curation(opened).recover()
            seen.add(await held(files) == after)
            assert await held(files) in (before, after)
            report = await curation(opened).apply(order)
            assert await held(files) == after
        else:
            break
    assert changes >= 8
    assert seen == {False, True}


class Sharing(Killable):
    """A store whose changes count with those of another one."""

    def __init__(self, files: SkillFiles, other: Killable) -> None:
        super().__init__(files, 0)
        self._other = other

    def _spend(self) -> None:
        self._other._spend()


async def test_what_was_decided_is_finished_by_whoever_comes_next(opened: Stores) -> None:
    files = opened.skills("default")
    original = files.move

    async def away(source: str, target: str) -> None:
        raise FileRefused(f"no {source} to {target}")

    broken = Curation(files, opened.reports("default"), SystemClock())
    files.move = away  # type: ignore[method-assign]
    with pytest.raises(ServiceUnavailable, match="half made: no mail-send"):
        await broken.apply(ORDER)
    files.move = original  # type: ignore[method-assign]
    assert await files.read(PATH, MOST) is not None
    assert "mail-send/SKILL.md" in await held(files)
    await curation(opened).recover()
    assert "mail-send/SKILL.md" not in await held(files)
    assert await files.read(PATH, MOST) is None
    assert [report.run_id for report in await curation(opened).reports(5)] == ["one"]


async def test_a_decision_that_seemed_not_to_be_written_and_was_is_one(opened: Stores) -> None:
    files = opened.skills("default")
    original = files.write

    async def unsure(path: str, data: bytes) -> None:
        await original(path, data)
        if path == PATH:
            raise FileRefused(f"{path}: Input/output error")

    files.write = unsure  # type: ignore[method-assign]
    report = await Curation(files, opened.reports("default"), SystemClock()).apply(ORDER)
    assert report.summary == "skills: 1 merged"
    assert "mail-send/SKILL.md" not in await held(files)


def curations_of(opened: Stores, files: SkillFiles) -> Curations:
    """The curations of profiles that all have these files."""

    def skills(profile: str) -> SkillFiles:
        return files

    no_model_is_asked = cast("CurationPlanner", None)
    return Curations(replace(opened, skills=skills), no_model_is_asked, SystemClock())


async def test_who_has_lost_the_files_for_a_moment_may_come_again(opened: Stores) -> None:
    files = opened.skills("default")
    original = files.write

    async def late(path: str, data: bytes) -> None:
        raise Fenced(f"{path} has another owner")

    files.write = late  # type: ignore[method-assign]
    # Not StaleEpoch, after which whoever has the run gives it up.
    with pytest.raises(ServiceUnavailable, match="has another owner"):
        async with curations_of(opened, files).opened("default") as found:
            await found.apply(ORDER)
    files.write = original  # type: ignore[method-assign]
    async with curations_of(opened, files).opened("default") as found:
        assert (await found.apply(ORDER)).changes


async def test_an_earlier_epoch_is_refused_also_by_who_has_just_started(opened: Stores) -> None:
    await curation(opened).apply(replace(ORDER, epoch=7))
    await curation(opened).restore("back", "")
    for dry_run in (False, True):
        with pytest.raises(StaleEpoch):
            await curation(opened).apply(replace(ORDER, epoch=7, dry_run=dry_run))
    assert (await curation(opened).state())[0].last_run_epoch == 7
    await curation(opened).apply(Order("two", plan=ORDER.plan, epoch=8))
    assert (await curation(opened).state())[0].last_run_epoch == 8
