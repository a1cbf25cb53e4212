"""What is wanted of a hub, and what came of it."""

import hashlib
from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct

from agent_service.profiles.skills.hub.package import Package
from agent_service.profiles.skills.hub.source import Source
from agent_service.profiles.skills.hub.verdicts import Review
from agent_service.profiles.skills.library import Trust


class Status(StrEnum):
    """What became of a skill."""

    INSTALLED = "installed"
    UPDATED = "updated"
    REMOVED = "removed"
    UNCHANGED = "unchanged"
    ASKS = "asks"
    """Nothing was done: a person has to look at it, and say the consent."""
    REFUSED = "refused"
    FAILED = "failed"
    """Nothing was done, and the same may succeed later."""


class Step(Struct, frozen=True):
    """What is being done."""

    text: str


class Outcome(Struct, frozen=True):
    """What became of one skill."""

    name: str
    status: Status
    message: str = ""
    source: str = ""
    version: str = ""
    digest: str = ""
    trust: str = ""
    review: Review | None = None
    """None where it was not looked through."""
    files: Sequence[str] = ()
    consent: str = ""
    """What accepts just this content with just these findings."""


class Terms(Struct, frozen=True):
    """On which somebody wants something."""

    consents: frozenset[str] = frozenset()
    dry_run: bool = False


class Candidate(Struct, frozen=True):
    """A skill that could be in the library."""

    package: Package
    source: Source
    place: str
    commit: str
    trust: Trust
    review: Review
    is_known: bool = False
    """It is what is installed, and was not looked through again."""

    def outcome(self, status: Status, message: str = "", consent: str = "") -> Outcome:
        """What became of it."""
        return Outcome(
            self.package.name,
            status,
            message,
            self.source.text,
            self.commit or self.package.version,
            self.package.digest,
            self.trust.value,
            None if self.is_known else self.review,
            tuple(self.package.files),
            consent,
        )

    def consent(self, there: str) -> str:
        """What accepts it in place of what is there."""
        seen = (self.package.name, self.package.digest, self.review.verdict.value, there)
        families = sorted({each.family for each in self.review.findings})
        return hashlib.sha256("\n".join([*seen, *families]).encode()).hexdigest()[:32]
