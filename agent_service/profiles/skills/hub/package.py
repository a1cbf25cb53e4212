"""Packages of skills: unpacked, checked, and reduced to the files that a library keeps."""

import io
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from agent_service.profiles.skills.document import (
    BadSkill,
    SkillDocument,
    checked,
    hermes_fields,
    own_name,
    read,
)
from agent_service.profiles.skills.hub.source import HubRefused, Source
from agent_service.profiles.skills.journal import content_digest
from agent_service.profiles.skills.names import (
    DOCUMENT,
    MAX_SUPPORT_BYTES,
    is_file_name,
    support_file,
)
from services.home.texts import decode_text

MAX_FILES = 200
MAX_BYTES = 4 * 1024 * 1024
_IGNORED = frozenset({".DS_Store", ".gitignore", ".gitattributes", ".gitkeep", ".editorconfig"})


class Package(Struct, frozen=True):
    """A skill with all its files."""

    name: str
    document: SkillDocument
    files: Mapping[str, bytes]
    left_out: Sequence[str]

    @property
    def digest(self) -> str:
        return content_digest(self.files)

    @property
    def version(self) -> str:
        """Return the version that the skill states; empty if it has none."""
        fields = self.document.fields
        metadata = fields.get("metadata")
        inside = metadata.get("version") if isinstance(metadata, dict) else None
        found = inside or hermes_fields(fields).get("version") or fields.get("version")
        return found[:64] if isinstance(found, str) else ""


def partition(name: str, sizes: Mapping[str, int]) -> tuple[Sequence[str], Sequence[str]]:
    """Divide a skill's files into those that a library keeps and those that are left out."""
    keep: list[str] = []
    left_out: list[str] = []
    for path in sorted(sizes):
        parts = path.split("/")
        if parts[-1] in _IGNORED or parts[0] in (".git", "__MACOSX"):
            continue
        is_kept = is_file_name(path) or support_file(path) == path
        (keep if is_kept else left_out).append(path)
    if DOCUMENT not in keep:
        raise HubRefused(f"{name} has no {DOCUMENT}")
    if len(keep) > MAX_FILES:
        raise HubRefused(f"{name} has {len(keep):,} files; a skill has {MAX_FILES} at most")
    for path in keep:
        if sizes[path] > MAX_SUPPORT_BYTES:
            raise HubRefused(f"{path} of {name} has {sizes[path]:,} bytes; 1 MiB is the limit")
    total = sum(sizes[path] for path in keep)
    if total > MAX_BYTES:
        raise HubRefused(f"{name} has {total:,} bytes; a skill has {MAX_BYTES:,} at most")
    return keep, left_out


def packaged(name: str, files: Mapping[str, bytes], left_out: Sequence[str] = ()) -> Package:
    """Package a skill under the name it gives itself, else `name`; HubRefused if it is invalid."""
    keep, more = partition(name or "it", {path: len(data) for path, data in files.items()})
    try:
        text = decode_text(files[DOCUMENT])
        document = checked(text, name or own_name(text))
    except UnicodeDecodeError:
        raise HubRefused(f"{DOCUMENT} of {name} is not UTF-8") from None
    except BadSkill as error:
        raise HubRefused(f"{name or DOCUMENT} is no skill: {error}") from None
    inside = {path: files[path] for path in keep}
    return Package(document.name, document, inside, tuple(sorted({*left_out, *more})))


MAX_UNPACKED_BYTES = 4 * MAX_BYTES
MAX_MEMBERS = 2_000
_GZIP, _ZIP = b"\x1f\x8b", b"PK\x03\x04"


def unpacked(data: bytes, name: str) -> Mapping[str, bytes]:
    """Return an archive's files by path; HubRefused if it is invalid or hostile."""
    try:
        if data.startswith(_ZIP):
            found = _zip(data, name)
        elif data.startswith(_GZIP):
            found = _tar(_inflated(data, name), name)
        else:
            found = _tar(data, name)
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError):
        raise HubRefused(f"the archive of {name} is damaged, or no archive") from None
    except (NotImplementedError, RuntimeError):
        raise HubRefused(f"the archive of {name} is encrypted or packed in a rare way") from None
    return _at_top(found, name)


def _inflated(data: bytes, name: str) -> bytes:
    inflater = zlib.decompressobj(wbits=31)
    found = inflater.decompress(data, MAX_UNPACKED_BYTES + 1)
    if len(found) > MAX_UNPACKED_BYTES:
        raise _too_large(name)
    return found


def _tar(data: bytes, name: str) -> Mapping[str, bytes]:
    found: dict[str, bytes] = {}
    left = MAX_UNPACKED_BYTES
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        for count, member in enumerate(archive, 1):
            if count > MAX_MEMBERS:
                raise _too_large(name)
            if member.isdir():
                continue
            if not member.isreg() or member.issparse():
                raise HubRefused(f"the archive of {name} has a link or a device: {member.name!r}")
            left -= member.size
            if left < 0:
                raise _too_large(name)
            stream = archive.extractfile(member)
            _add(found, member.name, stream.read() if stream else b"", name)
    return found


def _zip(data: bytes, name: str) -> Mapping[str, bytes]:
    found: dict[str, bytes] = {}
    left = MAX_UNPACKED_BYTES
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        if len(members) > MAX_MEMBERS:
            raise _too_large(name)
        for member in members:
            kind = stat.S_IFMT(member.external_attr >> 16)
            if member.is_dir():
                continue
            if kind not in (0, stat.S_IFREG):
                raise HubRefused(f"the archive of {name} has a link: {member.filename!r}")
            with archive.open(member) as stream:
                inside = stream.read(left + 1)
            left -= len(inside)
            if left < 0:
                raise _too_large(name)
            _add(found, member.filename, inside, name)
    return found


def _add(found: dict[str, bytes], path: str, data: bytes, name: str) -> None:
    parts = path.removeprefix("./").split("/")
    is_bad = any(part in ("", ".", "..") or part != part.strip() for part in parts)
    if is_bad or "\\" in path or ":" in path or not path.isprintable():
        raise HubRefused(f"the archive of {name} has a path that leads elsewhere: {path!r}")
    place = "/".join(parts)
    if any(place.casefold() == each.casefold() for each in found):
        raise HubRefused(f"the archive of {name} has {place!r} twice")
    found[place] = data


def _at_top(found: Mapping[str, bytes], name: str) -> Mapping[str, bytes]:
    """Return the files relative to the skill, even if the archive wraps them in a folder."""
    around = f"{name}/"
    if DOCUMENT not in found and found and all(path.startswith(around) for path in found):
        return {path.removeprefix(around): data for path, data in found.items()}
    return found


def _too_large(name: str) -> HubRefused:
    return HubRefused(
        f"the archive of {name} unpacks to more than {MAX_UNPACKED_BYTES >> 20} MiB or "
        f"{MAX_MEMBERS:,} files"
    )


MAX_OFFERS = 1_000


class Offer(Struct, frozen=True):
    """An available skill."""

    name: str
    description: str
    place: str
    """Where it is in the source: a folder, or the URL of an artifact; empty means the whole source.
    """
    tags: Sequence[str] = ()


class Opened(Protocol):
    """A source that was opened."""

    @property
    def source(self) -> Source: ...

    @property
    def version(self) -> str:
        """Return its commit; empty if it has none."""
        ...

    async def offers(self) -> Sequence[Offer]:
        """Return the available skills by name."""
        ...

    async def take(self, offer: Offer) -> Package:
        """Return a skill with all its files; HubRefused if it is invalid."""
        ...


def offer_of(place: str, document: bytes) -> Offer:
    """Read the offer in a folder's SKILL.md."""
    folder = place.rpartition("/")[2]
    found = read(decode_text(document, "replace"), folder)
    named = found.fields.get("name", "")
    name = folder or (named.strip() if isinstance(named, str) else "")
    return Offer(name, found.description[:1024], place, found.tags)


def chosen(offers: Sequence[Offer], wanted: Sequence[str], source: Source) -> Sequence[Offer]:
    """Return the offers that were asked for; HubRefused if that is not clear."""
    names = ", ".join(sorted({each.name for each in offers})[:40])
    if not offers:
        raise HubRefused(f"{source.text} has no skills: no folder in it has a {DOCUMENT}")
    if not wanted:
        if len(offers) == 1:
            return offers
        raise HubRefused(f"{source.text} has {len(offers)} skills; say which: {names}")
    found: list[Offer] = []
    for name in dict.fromkeys(wanted):
        same = [each for each in offers if name in (each.name, each.place)]
        if len(same) > 1:
            places = ", ".join(each.place for each in same)
            raise HubRefused(f"{source.text} has several skills {name}: {places}; say which")
        if not same:
            raise HubRefused(f"{source.text} has no skill {name!r}; it has {names}")
        found += same
    return found
