"""Copies the skills that come with Hermes into a library, where their owner may do as he likes.

`.bundled_manifest` says with which digest each was last put there. One that still has it is ours,
and is replaced by a newer version; any other is its owner's, and so is one that is gone. What is
new is made ready in a hidden folder and moved to its place as a whole, so that a process that is
killed leaves every skill as it was or as it becomes, and the next start does the rest.
"""

from collections.abc import Collection, Mapping, Sequence
from secrets import token_hex

from msgspec import Struct

from agent_service.skills.files import FileFact, FileRefused, SkillFiles
from agent_service.skills.library import BUNDLED, MAX_LIST_BYTES
from agent_service.skills.names import ARCHIVE, DOCUMENT, MAX_SUPPORT_BYTES
from agent_service.skills.shipped import Package, Shipped, digest

STAGE = ".bundled"
"""Where a skill is made ready, under its name; what it replaces is beside it meanwhile, under
`category+name+random`."""
_BESIDE = "+"
_NAMED = 3
"""How many skills that could not be copied are told."""

Tree = Mapping[str, FileFact]


class Manifest(Struct, frozen=True):
    """`.bundled_manifest`: lines `name:digest`, those of other programs among them."""

    text: str

    @classmethod
    def parse(cls, data: bytes | None) -> "Manifest":
        """The file as it is, byte for byte."""
        return cls((data or b"").decode(errors="surrogateescape"))

    @property
    def encoded(self) -> bytes:
        """The file."""
        return self.text.encode(errors="surrogateescape")

    def of(self, name: str) -> str | None:
        """With which digest a skill was put there; None where it never was."""
        found = [line.partition(":") for line in self.text.splitlines() if ":" in line]
        return next((after.strip() for left, _, after in found if left.strip() == name), None)

    def without(self, names: Collection[str]) -> "Manifest":
        """The same without the lines of some skills; all others stay as they are."""
        lines = self.text.splitlines(keepends=True)
        kept = "".join(each for each in lines if each.partition(":")[0].strip() not in names)
        # What was added to a file without an end of line has taken one for itself.
        added = bool(lines) and not lines[-1].endswith("\n")
        return Manifest(kept.removesuffix("\n") if added and kept != self.text else kept)

    def with_digest(self, name: str, value: str) -> "Manifest":
        """The same with a skill's line, where it was or as the last; the end stays as it is."""
        lines = self.text.splitlines(keepends=True)
        ends = "" if lines and not lines[-1].endswith("\n") else "\n"
        for at, each in enumerate(lines):
            if each.partition(":")[0].strip() == name:
                lines[at] = f"{name}:{value}" + ("\n" if each.endswith("\n") else "")
                return Manifest("".join(lines))
        if lines and not ends:
            lines[-1] += "\n"
        return Manifest("".join([*lines, f"{name}:{value}{ends}"]))


class Own(Struct, frozen=True):
    """What in a library is as Hermes has put it there, so that it need not move with a home."""

    skills: Mapping[str, str]
    """The folder of each, by name."""
    paths: frozenset[str]
    """Its files."""
    manifest: Manifest
    """What the manifest says of all others."""


class BundledSkills:
    """Puts the package's skills into libraries."""

    def __init__(self, package: Package) -> None:
        self._package = package

    async def copy(self, files: SkillFiles) -> None:
        """Put there what is new, and renew what is unchanged; FileRefused where that cannot be."""
        shipped = await self._package.skills()
        manifest = Manifest.parse(await files.read(BUNDLED, MAX_LIST_BYTES))
        if all(manifest.of(skill.name) == skill.digest for skill in shipped):
            return
        async with files.locked():
            await _undo(files)
            before = manifest = Manifest.parse(await files.read(BUNDLED, MAX_LIST_BYTES))
            tree = await files.tree()
            refused: list[str] = []
            for skill in shipped:
                try:
                    value = await _put(files, tree, skill, manifest.of(skill.name))
                except FileRefused as error:
                    refused.append(f"{skill.name}: {error}")
                else:
                    manifest = manifest.with_digest(skill.name, value) if value else manifest
            if manifest != before:
                await files.write(BUNDLED, manifest.encoded)
            await _undo(files)
        if refused:
            raise FileRefused("; ".join(refused[:_NAMED]))

    async def own(self, files: SkillFiles) -> Own:
        """What is there as it was shipped."""
        manifest = Manifest.parse(await files.read(BUNDLED, MAX_LIST_BYTES))
        tree = await files.tree()
        found: dict[str, str] = {}
        for skill in await self._package.skills():
            folder = _folder_of(tree, skill)
            is_listed = manifest.of(skill.name) == skill.digest
            if folder and is_listed and await _digest(files, tree, folder) == skill.digest:
                found[skill.name] = folder
        paths = {path for path in tree for folder in found.values() if _is_in(path, folder)}
        return Own(found, frozenset(paths), manifest.without(found.keys()))

    async def withdraw(self, files: SkillFiles) -> None:
        """Take away what is as it was shipped, as if it had never been put there."""
        async with files.locked():
            await _undo(files)
            own = await self.own(files)
            if not own.skills:
                return
            # First of all: without its line, a skill that stays is taken for ours again.
            if own.manifest.text:
                await files.write(BUNDLED, own.manifest.encoded)
            else:
                await files.remove(BUNDLED)
            for name, folder in own.skills.items():
                await files.move(folder, f"{STAGE}/{name}")
            await _clear(files, f"{STAGE}/")


async def _put(files: SkillFiles, tree: Tree, skill: Shipped, listed: str | None) -> str | None:
    """Put one skill there, if it may be; the digest for its line, None to leave that as it is."""
    folder = _folder_of(tree, skill)
    if not folder:
        if listed is None and not _was_put_away(tree, skill.name):
            await _install(files, skill, _place(tree, skill), "")
            return skill.digest
        return None
    found = await _digest(files, tree, folder)
    if found == skill.digest:
        return skill.digest
    if listed is None or found != listed:
        return None
    await _install(files, skill, folder, folder)
    return skill.digest


async def _install(files: SkillFiles, skill: Shipped, place: str, replaced: str) -> None:
    stage = f"{STAGE}/{skill.name}"
    for path, data in skill.files.items():
        await files.write(f"{stage}/{path}", data)
    if replaced:
        category, _, name = replaced.rpartition("/")
        beside = _BESIDE.join((category, name, token_hex(4)))
        await files.move(replaced, f"{STAGE}/{beside}")
    await files.move(stage, place)


async def _undo(files: SkillFiles) -> None:
    """Bring back what was being replaced when a process was killed."""
    tree = await files.tree()
    left = {path.split("/")[1] for path in tree if path.startswith(f"{STAGE}/")}
    for beside in (each for each in left if each.count(_BESIDE) >= 2):
        category, name, _ = beside.rsplit(_BESIDE, 2)
        place = f"{category}/{name}" if category else name
        if not any(_is_in(path, place) for path in tree):
            await files.move(f"{STAGE}/{beside}", place)
    await _clear(files, f"{STAGE}/")


async def _clear(files: SkillFiles, folder: str) -> None:
    found = [each for each in await files.tree() if each.startswith(folder)]
    # The innermost first: only a folder that is empty goes with its last file.
    for path in sorted(found, key=lambda each: each.count("/"), reverse=True):
        await files.remove(path)


def _folder_of(tree: Tree, skill: Shipped) -> str:
    """Where a skill of that name is, whatever its owner calls its category; empty if nowhere."""
    tops: Sequence[str] = [path.removesuffix(f"/{DOCUMENT}") for path in tree]
    found = [
        top
        for top in tops
        if top.rpartition("/")[2] == skill.name and top.count("/") <= 1 and not top.startswith(".")
        if f"{top}/{DOCUMENT}" in tree
    ]
    return min(found, key=lambda top: (top != skill.folder, top), default="")


def _place(tree: Tree, skill: Shipped) -> str:
    """Where a new one goes: its category may be the name of somebody's skill."""
    return skill.name if f"{skill.category}/{DOCUMENT}" in tree else skill.folder


def _was_put_away(tree: Tree, name: str) -> bool:
    return any(_is_in(path, f"{ARCHIVE}/{name}") for path in tree)


def _is_in(path: str, folder: str) -> bool:
    return path.startswith(f"{folder}/")


async def _digest(files: SkillFiles, tree: Tree, folder: str) -> str:
    """The digest of a folder as it is; empty where it has what we never shipped."""
    contents: dict[str, bytes] = {}
    for path in tree:
        if _is_in(path, folder):
            try:
                data = await files.read(path, MAX_SUPPORT_BYTES)
            except FileRefused:
                return ""
            contents[path.removeprefix(f"{folder}/")] = data or b""
    return digest(contents)
