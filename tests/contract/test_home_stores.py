"""Every store of homes takes and gives whole trees of files in the same way."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import pytest

from agent_service.profiles.home.base import Existing, HomeStore, ImportedFiles
from services.errors import AlreadyExists, FailedPrecondition, InvalidArgument
from services.home.files import HomeFile
from tests.support.profile_stores import stores

REFUSE, KEEP, REPLACE = Existing
Tree = Mapping[tuple[str, str], bytes]

TREE: Tree = {
    ("ann", "SOUL.md"): b"",
    ("default", "memories/MEMORY.md"): b"one\r\n\xc2\xa7\nline \xff",
    ("default", "skills/a b/scripts/ü.sh"): bytes(range(256)) * 5000,
    ("default", "what/is\nthis/-x"): b"unknown",
}


@pytest.fixture
async def store(profiles_url: str, tmp_path: Path) -> AsyncIterator[HomeStore]:
    """Each store in turn, empty."""
    async with stores(profiles_url, tmp_path) as opened:
        yield opened.homes


async def put(
    store: HomeStore, tree: Tree, existing: Existing = REFUSE, *, dry_run: bool = False
) -> ImportedFiles:
    async with store.incoming() as incoming:
        for (profile, path), data in tree.items():
            await incoming.add(HomeFile(profile, path, 0, 0o755 if path.endswith(".sh") else 0o644))
            for at in range(0, len(data), 100_000):
                await incoming.write(data[at : at + 100_000])
        return await store.put(incoming, existing, dry_run=dry_run)


async def held(store: HomeStore) -> Tree:
    return {
        (file.profile, file.path): b"".join([piece async for piece in store.read(file)])
        for profile in await store.profiles()
        for file in (await store.contents(profile)).files
    }


async def test_what_comes_in_goes_out_as_it_was(store: HomeStore) -> None:
    assert await store.profiles() == ["default"]
    assert await held(store) == {}
    taken = await put(store, TREE)
    assert set(taken.added) == set(taken.written) == set(TREE)
    assert await held(store) == TREE
    assert await store.profiles() == ["default", "ann"]
    found = (await store.contents("default")).files
    assert [file.path for file in found] == sorted(file.path for file in found)
    assert [file.size_bytes for file in found] == [len(TREE["default", f.path]) for f in found]
    assert {file.path: file.mode for file in found if file.mode & 0o100} == {
        "skills/a b/scripts/ü.sh": 0o755
    }


async def test_the_same_again_changes_nothing(store: HomeStore) -> None:
    await put(store, TREE)
    again = await put(store, TREE)
    assert (set(again.unchanged), again.written) == (set(TREE), ())


async def test_nothing_is_taken_where_something_is_in_the_way(store: HomeStore) -> None:
    await put(store, {("default", "SOUL.md"): b"mine"})
    other = {("default", "SOUL.md"): b"yours", ("default", "new"): b"new"}
    with pytest.raises(AlreadyExists, match=r"1 file is there already .*SOUL.md \(default\)"):
        await put(store, other)
    assert await held(store) == {("default", "SOUL.md"): b"mine"}


async def test_what_is_in_the_way_can_stay_or_go(store: HomeStore) -> None:
    await put(store, {("default", "SOUL.md"): b"mine"})
    other = {("default", "SOUL.md"): b"yours", ("default", "new"): b"new"}
    planned = await put(store, other, REPLACE, dry_run=True)
    assert planned.replaced == [("default", "SOUL.md")]
    assert await held(store) == {("default", "SOUL.md"): b"mine"}
    kept = await put(store, other, KEEP)
    assert (kept.added, kept.kept) == ([("default", "new")], [("default", "SOUL.md")])
    assert await held(store) == {("default", "SOUL.md"): b"mine", ("default", "new"): b"new"}
    replaced = await put(store, other, REPLACE)
    assert (replaced.added, replaced.replaced) == ([], [("default", "SOUL.md")])
    assert await held(store) == other


@pytest.mark.parametrize(
    ("there", "comes"),
    [
        (["d/a/x"], ["d/a"]),
        (["d/a/x"], ["d"]),
        (["d/a"], ["d/a/x/y"]),
        ([], ["d", "d/a/x"]),
        ([], ["d/a/x", "d/a"]),
    ],
)
async def test_no_file_comes_where_another_needs_a_folder(
    store: HomeStore, there: Sequence[str], comes: Sequence[str]
) -> None:
    before = {("default", path): b"mine" for path in there}
    await put(store, before)
    with pytest.raises(FailedPrecondition, match="has no place"):
        await put(store, {("default", path): b"yours" for path in [*comes, "new"]}, REPLACE)
    assert await held(store) == before


async def test_what_is_not_put_is_forgotten(store: HomeStore) -> None:
    async with store.incoming() as incoming:
        await incoming.add(HomeFile("default", "SOUL.md", 0, 0o600))
        await incoming.write(b"text")
    assert await held(store) == {}
    await store.recover()
    assert await held(store) == {}


@pytest.mark.parametrize(
    ("profile", "path"),
    [
        ("default", path)
        for path in (
            *(
                "",
                "/etc/passwd",
                "../x",
                "a//b",
                "a/./b",
                "a/",
                "a\0b",
                "x" * 1025,
                "d/" * 40 + "x",
            ),
            *("state/agent.db", "run", "workspaces/x", "profiles/ann/SOUL.md", "logs/hermes.log"),
        )
    ]
    + [("ann", "run/operator.token")],
)
async def test_what_is_no_file_of_a_home_is_refused(
    store: HomeStore, profile: str, path: str
) -> None:
    async with store.incoming() as incoming:
        with pytest.raises(InvalidArgument, match="cannot be moved"):
            await incoming.add(HomeFile(profile, path, 0, 0o600))


async def test_each_file_comes_once_and_before_its_data(store: HomeStore) -> None:
    async with store.incoming() as incoming:
        with pytest.raises(InvalidArgument, match="before a file"):
            await incoming.write(b"x")
        await incoming.add(HomeFile("default", "a", 0, 0o600))
        with pytest.raises(InvalidArgument, match="came twice"):
            await incoming.add(HomeFile("default", "a", 0, 0o600))


async def test_two_at_once_do_not_mix(store: HomeStore) -> None:
    trees = [{("default", f"{n}"): b"%d" % number for n in range(20)} for number in range(4)]
    await asyncio.gather(*(put(store, tree, REPLACE) for tree in trees))
    assert set((await held(store)).values()) <= {b"0", b"1", b"2", b"3"}
    assert len(await held(store)) == 20
