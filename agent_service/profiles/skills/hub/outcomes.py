"""Requests to a hub and their outcomes."""

import hashlib
from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct

from agent_service.profiles.skills.hub.package import Package
from agent_service.profiles.skills.hub.source import Source
from agent_service.profiles.skills.hub.verdicts import Review
from agent_service.profiles.skills.library import Trust


class Status(StrEnum):
    """The outcome for a skill."""

    INSTALLED = "installed"
    UPDATED = "updated"
    REMOVED = "removed"
    UNCHANGED = "unchanged"
    ASKS = "asks"
    """Not done: a person must review the findings and pass the consent."""
    REFUSED = "refused"
    FAILED = "failed"
    """Not done; the same may succeed later."""


class Step(Struct, frozen=True):
    """Kind of request."""

    text: str


class Outcome(Struct, frozen=True):
    """The outcome for one skill."""

    name: str
    status: Status
    message: str = ""
    source: str = ""
    version: str = ""
    digest: str = ""
    trust: str = ""
    review: Review | None = None
    """None if it was not scanned."""
    files: Sequence[str] = ()
    consent: str = ""
    """The token that accepts exactly this content with exactly these findings."""


class Terms(Struct, frozen=True):
    """The conditions of a request."""

    consents: frozenset[str] = frozenset()
    dry_run: bool = False


class Candidate(Struct, frozen=True):
    """A skill that may be installed."""

    package: Package
    source: Source
    place: str
    commit: str
    trust: Trust
    review: Review
    is_known: bool = False
    """It is the installed version, and was not scanned again."""

    def outcome(self, status: Status, message: str = "", consent: str = "") -> Outcome:
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
        seen = (self.package.name, self.package.digest, self.review.verdict.value, there)
        families = sorted({each.family for each in self.review.findings})
        return hashlib.sha256("\n".join([*seen, *families]).encode()).hexdigest()[:32]
