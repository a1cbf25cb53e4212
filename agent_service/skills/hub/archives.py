"""Unpacks archives of others in memory; nothing of them ever names a place on a disk."""

import io
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Mapping

from agent_service.skills.hub.errors import HubRefused
from agent_service.skills.hub.package import MAX_BYTES
from agent_service.skills.names import DOCUMENT

MAX_UNPACKED_BYTES = 4 * MAX_BYTES
MAX_MEMBERS = 2_000
_GZIP, _ZIP = b"\x1f\x8b", b"PK\x03\x04"


def unpacked(data: bytes, name: str) -> Mapping[str, bytes]:
    """The files of an archive by path; HubRefused where it is none, or is hostile."""
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
    """The files as they stand in the skill, also where the archive has its folder around them."""
    around = f"{name}/"
    if DOCUMENT not in found and found and all(path.startswith(around) for path in found):
        return {path.removeprefix(around): data for path, data in found.items()}
    return found


def _too_large(name: str) -> HubRefused:
    return HubRefused(
        f"the archive of {name} unpacks to more than {MAX_UNPACKED_BYTES >> 20} MiB or "
        f"{MAX_MEMBERS:,} files"
    )
