"""The skills that are bundled with Hermes, and their installation into libraries."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from secrets import token_hex

from msgspec import Struct

from agent_service.profiles.skills.files import FileFact, FileRefused, SkillFiles
from agent_service.profiles.skills.journal import content_digest
from agent_service.profiles.skills.library import BUNDLED, MAX_LIST_BYTES
from agent_service.profiles.skills.names import (
    ARCHIVE,
    DOCUMENT,
    MAX_SUPPORT_BYTES,
    SUPPORT_FOLDERS,
    skill_folders,
    support_file,
)

FOLDER = "bundled"


class Shipped(Struct, frozen=True):
    """A bundled skill."""

    name: str
    category: str
    files: Mapping[str, bytes]

    @property
    def folder(self) -> str:
        return f"{self.category}/{self.name}"

    @property
    def digest(self) -> str:
        return content_digest(self.files).removeprefix("sha256:")


class Package:
    """The bundled skills, read on first use."""

    def __init__(self, root: Path | None = None) -> None:
        """Read the package's own folder, or another one with the same layout."""
        self._root = root
        self._skills: Sequence[Shipped] | None = None

    async def skills(self) -> Sequence[Shipped]:
        if self._skills is None:
            self._skills = await asyncio.to_thread(self._read)
        return self._skills

    def _read(self) -> Sequence[Shipped]:
        root = self._root or Path(str(files("agent_service.profiles.skills"))) / FOLDER
        documents = sorted(root.glob(f"*/*/{DOCUMENT}"))
        return tuple(
            Shipped(folder.name, folder.parent.name, dict(_contents(folder)))
            for folder in (document.parent for document in documents)
        )


def _contents(folder: Path) -> Iterator[tuple[str, bytes]]:
    yield DOCUMENT, (folder / DOCUMENT).read_bytes()
    for kind in SUPPORT_FOLDERS:
        for path in sorted((folder / kind).glob("*")):
            name = f"{kind}/{path.name}"
            if path.is_file() and support_file(name):
                yield name, path.read_bytes()


STAGE = ".bundled"
"""The staging folder for a skill; what the skill replaces is kept beside it as
`category+name+random`."""
_BESIDE = "+"
_NAMED = 3
"""How many failed skills a message names."""

Tree = Mapping[str, FileFact]


class Own(Struct, frozen=True):
    """The unmodified bundled skills of a library, which exports leave out."""

    skills: Mapping[str, str]
    """The folder of each skill, by name."""
    paths: frozenset[str]
    manifest: Mapping[str, str]
    """The manifest's digests of all other skills, by name."""


class BundledSkills:
    """Installs bundled skills into libraries."""

    def __init__(self, package: Package) -> None:
        self._package = package

    async def copy(self, files: SkillFiles) -> None:
        """Add new skills and update unmodified ones; FileRefused if that fails."""
        shipped = await self._package.skills()
        manifest = await _manifest(files)
        if all(manifest.get(skill.name) == skill.digest for skill in shipped):
            return
        async with files.locked():
            await _undo(files)
            before = await _manifest(files)
            manifest = dict(before)
            tree = await files.tree()
            refused: list[str] = []
            for skill in shipped:
                try:
                    value = await _put(files, tree, skill, manifest.get(skill.name))
                except FileRefused as error:
                    refused.append(f"{skill.name}: {error}")
                else:
                    manifest |= {skill.name: value} if value else {}
            if manifest != before:
                await files.write(BUNDLED, encoded(manifest))
            await _undo(files)
        if refused:
            raise FileRefused("; ".join(refused[:_NAMED]))

    async def own(self, files: SkillFiles) -> Own:
        manifest = await _manifest(files)
        tree = await files.tree()
        found: dict[str, str] = {}
        for skill in await self._package.skills():
            folder = _folder_of(tree, skill)
            is_listed = manifest.get(skill.name) == skill.digest
            if folder and is_listed and await _digest(files, tree, folder) == skill.digest:
                found[skill.name] = folder
        paths = {path for path in tree for folder in found.values() if _is_in(path, folder)}
        return Own(
            found,
            frozenset(paths),
            {name: it for name, it in manifest.items() if name not in found},
        )

    async def withdraw(self, files: SkillFiles) -> None:
        """Remove unmodified skills as if they had never been installed."""
        async with files.locked():
            await _undo(files)
            own = await self.own(files)
            if not own.skills:
                return
            # The manifest first: a skill without a line that is left over is taken for ours again.
            if own.manifest:
                await files.write(BUNDLED, encoded(own.manifest))
            else:
                await files.remove(BUNDLED)
            for name, folder in own.skills.items():
                await files.move(folder, f"{STAGE}/{name}")
            await _clear(files, f"{STAGE}/")


def encoded(manifest: Mapping[str, str]) -> bytes:
    """Encode `.bundled_manifest`: lines `name:digest`, including those of other programs."""
    return "".join(f"{name}:{value}\n" for name, value in manifest.items()).encode()


async def _manifest(files: SkillFiles) -> dict[str, str]:
    """Return the digest of each skill as installed; malformed lines are skipped."""
    lines = (await files.read(BUNDLED, MAX_LIST_BYTES) or b"").decode(errors="replace").splitlines()
    parts = (line.partition(":") for line in lines if ":" in line)
    return {name.strip(): value.strip() for name, _, value in parts}


async def _put(files: SkillFiles, tree: Tree, skill: Shipped, listed: str | None) -> str | None:
    """Install a skill if allowed; return the digest for the manifest, None to keep its line."""
    folder = _folder_of(tree, skill)
    if not folder:
        if listed is None and not any(_is_in(path, f"{ARCHIVE}/{skill.name}") for path in tree):
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
    """Restore what was being replaced when a process was killed."""
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
    # Innermost first: a folder is removed with its last file only if it is empty.
    for path in sorted(found, key=lambda each: each.count("/"), reverse=True):
        await files.remove(path)


def _folder_of(tree: Tree, skill: Shipped) -> str:
    found = [each for each in skill_folders(tree) if each.rpartition("/")[2] == skill.name]
    return min(found, key=lambda top: (top != skill.folder, top), default="")


def _place(tree: Tree, skill: Shipped) -> str:
    """Return the folder for a new skill; a person's skill may be named like its category."""
    return skill.name if f"{skill.category}/{DOCUMENT}" in tree else skill.folder


def _is_in(path: str, folder: str) -> bool:
    return path.startswith(f"{folder}/")


async def _digest(files: SkillFiles, tree: Tree, folder: str) -> str:
    contents: dict[str, bytes] = {}
    for path in tree:
        if _is_in(path, folder):
            try:
                data = await files.read(path, MAX_SUPPORT_BYTES)
            except FileRefused:
                return ""
            contents[path.removeprefix(f"{folder}/")] = data or b""
    return content_digest(contents).removeprefix("sha256:")
