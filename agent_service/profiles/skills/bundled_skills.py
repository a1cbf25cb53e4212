"""The skills that are bundled with Hermes, and their installation into libraries."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path

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


class BundledSkill(Struct, frozen=True):
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
        self._skills: Sequence[BundledSkill] | None = None

    async def skills(self) -> Sequence[BundledSkill]:
        if self._skills is None:
            self._skills = await asyncio.to_thread(self._read)
        return self._skills

    def _read(self) -> Sequence[BundledSkill]:
        root = self._root or Path(str(files("agent_service.profiles.skills"))) / FOLDER
        documents = sorted(root.glob(f"*/*/{DOCUMENT}"))
        return tuple(
            BundledSkill(folder.name, folder.parent.name, dict(_contents(folder)))
            for folder in (document.parent for document in documents)
        )


def _contents(folder: Path) -> Iterator[tuple[str, bytes]]:
    yield DOCUMENT, (folder / DOCUMENT).read_bytes()
    for kind in SUPPORT_FOLDERS:
        for path in sorted((folder / kind).glob("*")):
            name = f"{kind}/{path.name}"
            if path.is_file() and support_file(name):
                yield name, path.read_bytes()


_NAMED = 3
"""How many failed skills a message names."""
_PENDING = ""
"""The digest in the manifest of a skill whose files are being changed."""

Tree = Mapping[str, FileFact]


class UnmodifiedSkills(Struct, frozen=True):
    """The unmodified bundled skills of a library, which exports leave out."""

    paths: frozenset[str]
    manifest: Mapping[str, str]
    """The manifest's digests of all other skills, by name."""


class BundledSkills:
    """Installs bundled skills into libraries."""

    def __init__(self, package: Package) -> None:
        self._package = package

    async def documents(self) -> str:
        """Return the text of all SKILL.md files."""
        shipped = await self._package.skills()
        return "\0".join(skill.files[DOCUMENT].decode() for skill in shipped)

    async def copy(self, files: SkillFiles) -> None:
        """Add new skills and update unmodified ones; FileRefused if that fails."""
        shipped = await self._package.skills()
        manifest = await _manifest(files)
        if all(manifest.get(skill.name) == skill.digest for skill in shipped):
            return
        refused: list[str] = []
        async with files.locked():
            manifest, tree = await _manifest(files), await files.tree()
            stale = [skill for skill in shipped if manifest.get(skill.name) != skill.digest]
            places = [await _place(files, tree, skill, manifest) for skill in stale]
            wanted = [(skill, at) for skill, at in zip(stale, places, strict=True) if at]
            updated = [skill.name for skill, at in wanted if f"{at}/{DOCUMENT}" in tree]
            if updated:
                manifest |= dict.fromkeys(updated, _PENDING)
                await files.write(BUNDLED, encoded(manifest))
            for skill, place in wanted:
                try:
                    await _install(files, tree, skill, place)
                except FileRefused as error:
                    refused.append(f"{skill.name}: {error}")
                    if skill.name in updated:  # what its owner changes from here on is kept
                        manifest[skill.name] = await _digest(files, await files.tree(), place)
                else:
                    manifest[skill.name] = skill.digest
            if wanted:
                await files.write(BUNDLED, encoded(manifest))
        if refused:
            raise FileRefused("; ".join(refused[:_NAMED]))

    async def own(self, files: SkillFiles) -> UnmodifiedSkills:
        manifest, tree = await _manifest(files), await files.tree()
        paths: set[str] = set()
        for skill in await self._package.skills():
            folder = _folder_of(tree, skill)
            is_listed = manifest.get(skill.name) == skill.digest
            if folder and is_listed and await _digest(files, tree, folder) == skill.digest:
                del manifest[skill.name]
                paths.update(path for path in tree if _is_in(path, folder))
        return UnmodifiedSkills(frozenset(paths), manifest)

    async def withdraw(self, files: SkillFiles) -> None:
        """Remove unmodified skills as if they had never been installed."""
        async with files.locked():
            own, manifest = await self.own(files), await _manifest(files)
            if not own.paths:
                return
            pending = dict.fromkeys(manifest, _PENDING)
            await files.write(BUNDLED, encoded({**pending, **own.manifest}))
            # Innermost first: a folder is removed with its last file only if it is empty.
            for path in sorted(own.paths, key=lambda each: each.count("/"), reverse=True):
                await files.remove(path)
            if own.manifest:
                await files.write(BUNDLED, encoded(own.manifest))
            else:
                await files.remove(BUNDLED)


def encoded(manifest: Mapping[str, str]) -> bytes:
    """Encode `.bundled_manifest`: lines `name:digest`, including those of other programs."""
    return "".join(f"{name}:{value}\n" for name, value in manifest.items()).encode()


async def _manifest(files: SkillFiles) -> dict[str, str]:
    """Return the digest of each skill as installed; malformed lines are skipped."""
    lines = (await files.read(BUNDLED, MAX_LIST_BYTES) or b"").decode(errors="replace").splitlines()
    parts = (line.partition(":") for line in lines if ":" in line)
    return {name.strip(): value.strip() for name, _, value in parts}


async def _place(
    files: SkillFiles, tree: Tree, skill: BundledSkill, manifest: Mapping[str, str]
) -> str | None:
    """Return the folder to write a skill to; None if its owner has changed or removed it."""
    folder, listed = _folder_of(tree, skill), manifest.get(skill.name)
    if not folder:
        is_archived = any(_is_in(path, f"{ARCHIVE}/{skill.name}") for path in tree)
        # A person's skill may be named like the category.
        place = skill.name if f"{skill.category}/{DOCUMENT}" in tree else skill.folder
        return None if listed or is_archived else place
    if listed == _PENDING or await _digest(files, tree, folder) in (listed, skill.digest):
        return folder
    return None


async def _install(files: SkillFiles, tree: Tree, skill: BundledSkill, place: str) -> None:
    # SKILL.md last: only with it does a new skill exist.
    for path in sorted(skill.files, key=lambda each: each == DOCUMENT):
        await files.write(f"{place}/{path}", skill.files[path])
    if f"{place}/{DOCUMENT}" in tree:
        kept = {f"{place}/{path}" for path in skill.files}
        for path in tree:
            if _is_in(path, place) and path not in kept:
                await files.remove(path)


def _folder_of(tree: Tree, skill: BundledSkill) -> str:
    found = [each for each in skill_folders(tree) if each.rpartition("/")[2] == skill.name]
    return min(found, key=lambda top: (top != skill.folder, top), default="")


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
