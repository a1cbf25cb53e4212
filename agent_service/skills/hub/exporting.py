"""Writes skills so that others can install them: as folders, or as a site that lists them."""

import asyncio
import gzip
import hashlib
import io
import tarfile
from collections.abc import Mapping, Sequence

import msgspec

from agent_service.skills.document import BadSkill
from agent_service.skills.files import FileRefused, SkillFiles
from agent_service.skills.hub.errors import HubRefused
from agent_service.skills.hub.index import PLACES, SCHEMA, Entry, Listing
from agent_service.skills.hub.package import Package, packaged
from agent_service.skills.hub.shelves import HubShelf
from agent_service.skills.names import DOCUMENT

SITE = PLACES[0].strip("/").rpartition("/")[0]


async def exported(
    files: SkillFiles, names: Sequence[str], *, as_index: bool
) -> Mapping[str, bytes]:
    """The files of what is shared, by path; HubRefused where a skill is not one to share."""
    shelf, found = HubShelf(files), list[Package]()
    try:
        there = await shelf.read()
        for name in dict.fromkeys(names):
            same = there.catalogue.find(name)
            if len(same) != 1:
                listed = ", ".join(each.folder for each in same)
                several = f"there are several skills {name}: {listed}; say which"
                none = f"there is no skill {name!r}; `hermes skills list` has those there are"
                raise HubRefused(several if same else none)
            content = await shelf.content(there, same[0].folder)
            found.append(await asyncio.to_thread(packaged, same[0].name, content))
    except (BadSkill, FileRefused) as error:
        raise HubRefused(str(error)) from None
    if len({each.name for each in found}) != len(found):
        raise HubRefused("two of them have the same name")
    return await asyncio.to_thread(_site, found) if as_index else _folders(found)


def _folders(packages: Sequence[Package]) -> Mapping[str, bytes]:
    return {f"{each.name}/{path}": data for each in packages for path, data in each.files.items()}


def _site(packages: Sequence[Package]) -> Mapping[str, bytes]:
    found: dict[str, bytes] = {}
    entries: list[Entry] = []
    for each in packages:
        is_archive = len(each.files) > 1
        path = f"{each.name}.tar.gz" if is_archive else f"{each.name}/{DOCUMENT}"
        data = _packed(each.files) if is_archive else each.files[DOCUMENT]
        found[f"{SITE}/{path}"] = data
        digest = hashlib.sha256(data).hexdigest()
        kind = "archive" if is_archive else "skill-md"
        about = each.document.description
        entries.append(Entry(each.name, about, kind, path, f"sha256:{digest}"))
    listing = msgspec.json.encode(Listing(tuple(entries), SCHEMA))
    found[f"{SITE}/index.json"] = msgspec.json.format(listing, indent=2) + b"\n"
    return found


def _packed(files: Mapping[str, bytes]) -> bytes:
    """An archive that is the same for the same files."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w") as archive,
    ):
        for path in sorted(files):
            member = tarfile.TarInfo(path)
            member.size, member.mode = len(files[path]), 0o644
            archive.addfile(member, io.BytesIO(files[path]))
    return packed.getvalue()
