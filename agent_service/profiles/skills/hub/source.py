"""Sources of skills, and the errors of reading them."""

import re
from enum import StrEnum
from urllib.parse import urlsplit

from msgspec import Struct

from agent_service.profiles.skills.names import is_folder


class HubRefused(Exception):
    """The skill or source is not acceptable; the message says why and what to do."""


class HubFailed(Exception):
    """The source did not deliver: a server does not answer, or a repository is gone."""


FORMS = (
    "a hub of skills.hubs, https://host/repository.git[@REF][#FOLDER], "
    "https://host/.well-known/agent-skills/index.json, https://host, "
    "or the folder of a git repository"
)
_REF = re.compile(r"(?!-)(?!.*\.\.)[A-Za-z0-9._/+-]{1,128}(?<![./])")
MAX_CHARS = 2_048


class Kind(StrEnum):
    """Kind of source."""

    GIT = "git"
    INDEX = "index"
    UNKNOWN = "unknown"
    """A URL whose kind is found out by a request."""


class Source(Struct, frozen=True):
    """A place that skills come from."""

    kind: Kind
    url: str
    """An http or https URL, or the absolute path of a repository."""
    ref: str = ""
    """A branch, tag or commit; empty means the default branch."""
    folder: str = ""
    """The folder with the skills; empty means the top."""

    @property
    def text(self) -> str:
        """Return the source as text, from which `parsed` returns the same source."""
        prefix = "git+" if self.kind is Kind.GIT else ""
        ref = f"@{self.ref}" if self.ref else ""
        return f"{prefix}{self.url}{ref}{f'#{self.folder}' if self.folder else ''}"

    @property
    def is_local(self) -> bool:
        return self.url.startswith("/")


def parse_source(text: str) -> Source:
    """Parse a source; HubRefused if the text is not one."""
    if len(text) > MAX_CHARS or any(ord(each) < 32 or each.isspace() for each in text):
        raise HubRefused(f"{text[:80]!r} is no source; a source is {FORMS}")
    is_git = text.startswith("git+")
    place, _, folder = text.removeprefix("git+").removeprefix("file://").partition("#")
    place, ref = _without_ref(place)
    if not place.startswith(("/", "http://", "https://")):
        raise HubRefused(f"{text[:80]!r} is no source; a source is {FORMS}")
    if ref and not _REF.fullmatch(ref):
        raise HubRefused(f"{ref[:80]!r} is no branch, tag or commit")
    folder = folder.strip("/")
    if folder and not is_folder(folder):
        raise HubRefused(f"{folder[:80]!r} is no folder in a repository")
    kind = _kind(place, is_git=is_git or bool(ref or folder))
    return Source(kind, place.rstrip("/") or "/", ref, folder)


def _without_ref(place: str) -> tuple[str, str]:
    head, slash, last = place.rpartition("/")
    name, at, ref = last.rpartition("@")
    if at and name:
        return f"{head}{slash}{name}", ref
    if ".git@" in place:  # a branch with a slash in its name
        before, _, ref = place.partition(".git@")
        return f"{before}.git", ref
    return place, ""


def _kind(place: str, *, is_git: bool) -> Kind:
    if is_git or place.startswith("/") or urlsplit(place).path.rstrip("/").endswith(".git"):
        return Kind.GIT
    return Kind.INDEX if urlsplit(place).path.endswith(".json") else Kind.UNKNOWN
