"""A skill as it came, in the form in which a library keeps it."""

import hashlib
from collections.abc import Mapping, Sequence

from msgspec import Struct

from agent_service.skills.document import BadSkill, SkillDocument, checked, hermes_fields, own_name
from agent_service.skills.hub.errors import HubRefused
from agent_service.skills.names import DOCUMENT, MAX_SUPPORT_BYTES, is_file_name, support_file

MAX_FILES = 200
MAX_BYTES = 4 * 1024 * 1024
"""Of all files of a skill together."""
_IGNORED = frozenset({".DS_Store", ".gitignore", ".gitattributes", ".gitkeep", ".editorconfig"})


class Package(Struct, frozen=True):
    """A skill with everything that it has."""

    name: str
    document: SkillDocument
    files: Mapping[str, bytes]
    left_out: Sequence[str]
    """What it had that a library does not keep."""

    @property
    def digest(self) -> str:
        """By which the same content is known again."""
        return content_digest(self.files)

    @property
    def version(self) -> str:
        """The version that it says it has; empty where it says none."""
        fields = self.document.fields
        metadata = fields.get("metadata")
        inside = metadata.get("version") if isinstance(metadata, dict) else None
        found = inside or hermes_fields(fields).get("version") or fields.get("version")
        return found[:64] if isinstance(found, str) else ""


def content_digest(files: Mapping[str, bytes]) -> str:
    """The digest of a skill's files."""
    whole = hashlib.sha256()
    for path in sorted(files):
        whole.update(f"{hashlib.sha256(files[path]).hexdigest()}  {path}\n".encode())
    return f"sha256:{whole.hexdigest()}"


def kept(name: str, sizes: Mapping[str, int]) -> tuple[Sequence[str], Sequence[str]]:
    """Of a skill's files those that a library keeps, and those that are left out."""
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
    """The skill of that name, or of the name that it gives itself; HubRefused where it is none."""
    keep, more = kept(name or "it", {path: len(data) for path, data in files.items()})
    try:
        text = files[DOCUMENT].decode()
        document = checked(text, name or own_name(text))
    except UnicodeDecodeError:
        raise HubRefused(f"{DOCUMENT} of {name} is not UTF-8") from None
    except BadSkill as error:
        raise HubRefused(f"{name or DOCUMENT} is no skill: {error}") from None
    inside = {path: files[path] for path in keep}
    return Package(document.name, document, inside, tuple(sorted({*left_out, *more})))
