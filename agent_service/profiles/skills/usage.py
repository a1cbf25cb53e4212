"""How skills are used: `.usage.json`, by which the curator knows what has gone stale."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

from msgspec import Meta, Struct, field
from msgspec.structs import replace

from agent_service.profiles.skills.document import BadSkill
from services.validation import json_object, lenient, object_of


class SkillState(StrEnum):
    """Where a skill is in its life."""

    ACTIVE = "active"
    STALE = "stale"
    ARCHIVED = "archived"


Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
"""As the wire can carry it."""


class Usage(Struct, frozen=True):
    """What is known of one skill's use; times are ISO 8601 in UTC, or None."""

    created_by: str | None = None
    """`agent`, or None where a person made it or it came with Hermes."""
    use_count: Count = 0
    view_count: Count = 0
    patch_count: Count = 0
    last_used_at: str | None = None
    last_viewed_at: str | None = None
    last_patched_at: str | None = None
    created_at: str | None = None
    state: SkillState = SkillState.ACTIVE
    pinned: bool = False
    archived_at: str | None = None
    archived_from: Mapping[str, str] = field(default_factory=dict[str, str])
    """The categories that skills of this name came from, by their folders in the archive."""

    @property
    def active_time(self) -> datetime | None:
        """When anything was last done with it."""
        times = (self.last_used_at, self.last_viewed_at, self.last_patched_at)
        return max((time for time in map(moment, times) if time is not None), default=None)

    @property
    def created_time(self) -> datetime | None:
        """When it was made or first seen; None where that is not known."""
        return moment(self.created_at)

    def viewed(self, at: str) -> "Usage":
        """After it was read, which brings a stale skill back."""
        return replace(self._active(), view_count=self.view_count + 1, last_viewed_at=at)

    def used(self, at: str) -> "Usage":
        """After a model was given it to follow, likewise."""
        return replace(self._active(), use_count=self.use_count + 1, last_used_at=at)

    def patched(self, at: str) -> "Usage":
        """After it was changed; the same change, told twice, counts once."""
        if self.last_patched_at == at:
            return self
        return replace(self._active(), patch_count=self.patch_count + 1, last_patched_at=at)

    def created(self, at: str) -> "Usage":
        """When the agent has just made it, under a name that may have been used before."""
        return replace(self.anew(at), created_by="agent")

    def anew(self, at: str) -> "Usage":
        """When another skill has the name: what is known of those in the archive stays.

        A pin was of the one before.
        """
        return Usage(created_at=at, archived_from=self.archived_from)

    def archived(self, at: str, folder: str, target: str) -> "Usage":
        """After its folder was put away as another one of the archive."""
        category, away = folder.rpartition("/")[0], target.rpartition("/")[2]
        others = self.without(away).archived_from
        places = {**others, away: category} if category else others
        return replace(self, state=SkillState.ARCHIVED, archived_at=at, archived_from=places)

    def restored(self, at: str) -> "Usage":
        """After it was brought back, from which on it counts as used: it was wanted."""
        return replace(self, state=SkillState.ACTIVE, archived_at=None, last_patched_at=at)

    def without(self, away: str) -> "Usage":
        """When a folder is no more in the archive."""
        kept = {each: it for each, it in self.archived_from.items() if each != away}
        return replace(self, archived_from=kept)

    def with_pin(self, *, is_pinned: bool) -> "Usage":
        """When its user wants it to stay as it is, or no longer."""
        return replace(self, pinned=is_pinned)

    def _active(self) -> "Usage":
        return self if self.state is SkillState.ARCHIVED else replace(self, state=SkillState.ACTIVE)


class UsageFile:
    """The records of a library, and whatever else its file has, which is kept."""

    def __init__(self, kept: Mapping[str, Any]) -> None:
        self._kept = dict(kept)

    @classmethod
    def parse(cls, data: bytes | None) -> "UsageFile":
        """The file's records; BadSkill when it cannot be read, as it then must not be replaced."""
        loaded = json_object(data) if data and data.strip() else {}
        if loaded is None:
            raise BadSkill(".usage.json is no JSON object; move it away, or mend it.")
        return cls(loaded)

    def of(self, name: str) -> Usage:
        """What is known of a skill; a new record where nothing is."""
        return lenient(self._kept.get(name), Usage)

    @property
    def records(self) -> Mapping[str, Any]:
        """All that the file has, as it has it."""
        return self._kept

    def put(self, name: str, usage: Usage) -> None:
        """Record it, with what its record had that we do not know."""
        before = object_of(self._kept.get(name))
        values = {name: getattr(usage, name) for name in Usage.__struct_fields__}
        kept = {**before, **values, "state": usage.state.value}
        if not usage.archived_from:
            del kept["archived_from"]
        self._kept[name] = kept

    def with_records(self, records: Mapping[str, Usage]) -> "UsageFile":
        """The same with some records anew."""
        changed = UsageFile(self._kept)
        for name, usage in records.items():
            changed.put(name, usage)
        return changed

    def encoded(self) -> bytes:
        """The file."""
        return (json.dumps(self._kept, indent=2, ensure_ascii=False) + "\n").encode()


def timestamp(moment: datetime) -> str:
    """A moment as the file has it."""
    return moment.astimezone(UTC).isoformat()


def moment(text: str | None) -> datetime | None:
    """A moment that the file has; None where it is none. Without a zone it is in UTC."""
    try:
        found = datetime.fromisoformat(text or "")
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        # One of the first or the last day may be none in UTC.
        return None
