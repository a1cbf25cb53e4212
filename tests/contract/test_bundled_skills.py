"""Skills that come with Hermes are copied into every kind of store, and stay their owner's."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from agent_service.profiles.skills.bundled_skills import BundledSkills, Package, encoded
from agent_service.profiles.skills.files import FileRefused, SkillFiles
from agent_service.profiles.skills.library import BUNDLED, Origin
from agent_service.profiles.skills.shelf import ProfileSkills
from agent_service.security.threats import ThreatScanner
from services.clock import SystemClock
from tests.support.profile_stores import stores
from tests.support.skills import document

MOST = 100_000
LOCK = ".usage.json"


class Killed(BaseException):
    """The process ends here."""


class Killable:
    """A store that ends after so many changes, as a process does that is killed."""

    def __init__(self, files: SkillFiles, changes: int) -> None:
        self._files = files
        self.left = changes
        self.read, self.tree, self.locked = files.read, files.tree, files.locked

    async def write(self, path: str, data: bytes) -> None:
        self._spend()
        await self._files.write(path, data)

    async def remove(self, path: str) -> None:
        self._spend()
        await self._files.remove(path)

    async def move(self, source: str, target: str) -> None:
        self._spend()
        await self._files.move(source, target)

    def _spend(self) -> None:
        if self.left == 0:
            raise Killed
        self.left -= 1


@pytest.fixture
async def files(profiles_url: str, tmp_path: Path) -> AsyncIterator[SkillFiles]:
    """The library of a profile in each store in turn, empty."""
    async with stores(profiles_url, tmp_path / "home") as opened:
        yield opened.skills("default")


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package with two skills of the first version."""
    return ship(tmp_path / "package", {"data/count": "one", "writing/letters": "one"})


def ship(root: Path, skills: Mapping[str, str]) -> Path:
    for folder, body in skills.items():
        text = document(folder.rpartition("/")[2], body=body)
        (root / folder / "scripts").mkdir(parents=True, exist_ok=True)
        (root / folder / "SKILL.md").write_text(text)
        (root / folder / "scripts" / "run.py").write_text(f"print({body!r})\n")
    return root


async def copy(files: SkillFiles, package: Path) -> None:
    await BundledSkills(Package(package)).copy(files)


async def held(files: SkillFiles) -> Mapping[str, bytes]:
    """What the library has, but for locks and records."""
    tree = await files.tree()
    return {path: await files.read(path, MOST) or b"" for path in tree if not path.startswith(LOCK)}


async def write(files: SkillFiles, path: str, data: bytes) -> None:
    async with files.locked():
        await files.write(path, data)


def serving(files: SkillFiles, package: Path) -> ProfileSkills:
    return ProfileSkills(files, SystemClock(), ThreatScanner(), BundledSkills(Package(package)))


async def test_they_are_there_when_the_library_is_first_used(
    files: SkillFiles, package: Path
) -> None:
    skills = serving(files, package)
    names = [skill.folder for skill in (await skills.catalogue()).skills]
    assert names == ["data/count", "writing/letters"]
    assert (await skills.record(await skills.find("count"))).origin is Origin.BUNDLED
    lines = ((await held(files))[BUNDLED]).decode().splitlines()
    assert [line.partition(":")[0] for line in lines] == ["count", "letters"]
    assert all(len(line.partition(":")[2]) == 64 for line in lines)


async def test_a_new_version_renews_what_is_unchanged_and_nothing_else(
    files: SkillFiles, package: Path
) -> None:
    await copy(files, package)
    edited = document("letters", body="mine").encode()
    await write(files, "writing/letters/SKILL.md", edited)
    await write(files, "data/count/notes.txt", b"")
    async with files.locked():
        await files.remove("data/count/notes.txt")
    await asyncio.to_thread(
        ship, package, {"data/count": "two", "writing/letters": "two", "data/sort": "new"}
    )
    scripts = package / "data" / "count" / "scripts"
    await asyncio.to_thread((scripts / "run.py").rename, scripts / "other.py")
    await copy(files, package)
    now = await held(files)
    assert b"two" in now["data/count/SKILL.md"]
    assert "data/count/scripts/run.py" not in now
    assert b"two" in now["data/count/scripts/other.py"]
    assert now["writing/letters/SKILL.md"] == edited
    assert b"one" in now["writing/letters/scripts/run.py"]
    assert b"new" in now["data/sort/SKILL.md"]


async def test_what_was_deleted_or_put_away_does_not_come_back(
    files: SkillFiles, package: Path
) -> None:
    await copy(files, package)
    async with files.locked():
        await files.move("data/count", ".archive/count")
        for path in [each for each in await files.tree() if each.startswith("writing/letters/")]:
            await files.remove(path)
    for body in ("one", "two"):
        await asyncio.to_thread(ship, package, {"data/count": body, "writing/letters": body})
        await copy(files, package)
        assert {path for path in await held(files) if not path.startswith(".")} == set()


async def test_a_skill_of_that_name_that_was_there_before_is_its_owners(
    files: SkillFiles, package: Path
) -> None:
    mine = document("count", body="mine").encode()
    await write(files, "count/SKILL.md", mine)
    await write(files, BUNDLED, b"plain:0123456789abcdef\r\nletters:beef")
    await copy(files, package)
    now = await held(files)
    assert now["count/SKILL.md"] == mine
    assert "data/count/SKILL.md" not in now
    assert "writing/letters/SKILL.md" not in now, "another program's that was deleted"
    assert now[BUNDLED] == b"plain:0123456789abcdef\r\nletters:beef"
    skills = serving(files, package)
    assert (await skills.record(await skills.find("count"))).origin is Origin.USER


async def test_a_killed_copy_is_completed_by_the_next(files: SkillFiles, package: Path) -> None:
    counted = Killable(files, -1)
    await copy(counted, package)
    whole = await held(files)
    await asyncio.to_thread(ship, package, {"data/count": "two", "writing/letters": "two"})
    await write(files, "writing/letters/SKILL.md", b"edited")
    before = await held(files)
    spent = -counted.left - 1
    for changes in range(2 * spent):
        await _reset(files, before)
        killable = Killable(files, changes)
        try:
            await copy(killable, package)
        except Killed:
            await copy(files, package)
        else:
            break
        now = await held(files)
        assert b"two" in now["data/count/SKILL.md"], changes
        assert b"two" in now["data/count/scripts/run.py"], changes
        assert now["writing/letters/SKILL.md"] == b"edited", changes
        assert now.keys() == whole.keys()
    else:
        pytest.fail("it never came to its end")


class Broken(Killable):
    """A store in which a file cannot be written."""

    async def write(self, path: str, data: bytes) -> None:
        if path == "data/count/SKILL.md":
            raise FileRefused("Input/output error")
        await super().write(path, data)


async def test_an_update_that_failed_is_made_later_unless_the_skill_is_changed_meanwhile(
    files: SkillFiles, package: Path
) -> None:
    await copy(files, package)
    await asyncio.to_thread(ship, package, {"data/count": "two"})
    before = await held(files)
    for edited in (b"", b"edited"):
        with pytest.raises(FileRefused, match="count: Input/output error"):
            await copy(Broken(files, 100), package)
        if edited:
            await write(files, "data/count/SKILL.md", edited)
        await copy(files, package)
        now = await held(files)
        assert edited or b"two" in now["data/count/SKILL.md"]
        assert not edited or now["data/count/SKILL.md"] == edited
        await _reset(files, before)


async def _reset(files: SkillFiles, before: Mapping[str, bytes]) -> None:
    async with files.locked():
        for path in await held(files):
            if path not in before:
                await files.remove(path)
        for path, data in before.items():
            await files.write(path, data)


async def test_what_is_withdrawn_leaves_the_library_as_it_was(
    files: SkillFiles, package: Path
) -> None:
    for given in (None, b"plain:0123\n", b"a:1\nb:2\n"):
        if given is not None:
            await write(files, BUNDLED, given)
        before = await held(files)
        await copy(files, package)
        assert await held(files) != before
        bundled = BundledSkills(Package(package))
        own = await bundled.own(files)
        assert encoded(own.manifest) == (given or b"")
        assert len(own.paths) == 4
        await bundled.withdraw(files)
        assert await held(files) == before
    await copy(files, package)
    await write(files, "data/count/SKILL.md", b"edited")
    await bundled.withdraw(files)
    now = await held(files)
    assert now["data/count/SKILL.md"] == b"edited"
    assert "writing/letters/SKILL.md" not in now
    assert b"count:" in now[BUNDLED]


async def test_a_library_that_cannot_be_written_is_read_all_the_same(
    files: SkillFiles, package: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await write(files, "mine/SKILL.md", document("mine").encode())
    await write(files, "data", b"a file in the way")
    catalogue = await serving(files, package).catalogue()
    assert [skill.name for skill in catalogue.skills] == ["mine", "letters"]
    assert "not all skills that come with Hermes are copied: count: " in caplog.text
    with pytest.raises(FileRefused):
        await copy(files, package)


async def test_several_replicas_copy_once(profiles_url: str, tmp_path: Path, package: Path) -> None:
    async with AsyncExitStack() as stack:
        replicas = [
            await stack.enter_async_context(
                stores(profiles_url, tmp_path / "shared", replica=str(number))
            )
            for number in range(3)
        ]
        libraries = [replica.skills("default") for replica in replicas]
        await asyncio.gather(*(copy(library, package) for library in libraries))
        now = await held(libraries[0])
    assert len(now[BUNDLED].splitlines()) == 2
    assert sorted(path for path in now if path != BUNDLED) == [
        "data/count/SKILL.md",
        "data/count/scripts/run.py",
        "writing/letters/SKILL.md",
        "writing/letters/scripts/run.py",
    ]
