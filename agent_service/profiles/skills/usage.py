"""The usage records of skills in `.usage.json`, by which the curator finds stale skills."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import replace

from agent_service.profiles.skills.document import BadSkill
from services.validation import json_object, lenient, object_of


class SkillState(StrEnum):
    """State of a skill in its life cycle."""

    ACTIVE = "active"
    STALE = "stale"
    ARCHIVED = "archived"


Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
"""Limited to what the wire can carry."""


class Usage(Struct, frozen=True):
    """A skill's usage; times are ISO 8601 in UTC, or None."""

    created_by: str | None = None
    """`agent`, or None if a person or Hermes created it."""
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
    archived_from: str = ""
    """The category of the skill of this name that was archived last."""

    @property
    def active_time(self) -> datetime | None:
        times = (self.last_used_at, self.last_viewed_at, self.last_patched_at)
        return max((time for time in map(moment, times) if time is not None), default=None)

    @property
    def created_time(self) -> datetime | None:
        """Return when the skill was created or first seen; None if unknown."""
        return moment(self.created_at)

    def viewed(self, at: str) -> "Usage":
        """Return the record after a read, which revives a stale skill."""
        return replace(self._active(), view_count=self.view_count + 1, last_viewed_at=at)

    def used(self, at: str) -> "Usage":
        """Return the record after a model was given the skill to follow, which also revives it."""
        return replace(self._active(), use_count=self.use_count + 1, last_used_at=at)

    def patched(self, at: str) -> "Usage":
        """Return the record after a change; repeats of one change count once."""
        if self.last_patched_at == at:
            return self
        return replace(self._active(), patch_count=self.patch_count + 1, last_patched_at=at)

    def created(self, at: str) -> "Usage":
        """Return the record of a new skill of the agent; the name may have been used before."""
        return replace(self.anew(at), created_by="agent")

    def anew(self, at: str) -> "Usage":
        """Return the record when another skill takes the name, without the pin."""
        return Usage(created_at=at, archived_from=self.archived_from)

    def archived(self, at: str, folder: str) -> "Usage":
        """Return the record after the skill was archived from its folder."""
        category = folder.rpartition("/")[0]
        return replace(self, state=SkillState.ARCHIVED, archived_at=at, archived_from=category)

    def restored(self, at: str) -> "Usage":
        """Return the record after a restore, which counts as use."""
        return replace(self, state=SkillState.ACTIVE, archived_at=None, last_patched_at=at)

    def with_pin(self, *, is_pinned: bool) -> "Usage":
        return replace(self, pinned=is_pinned)

    def _active(self) -> "Usage":
        return self if self.state is SkillState.ARCHIVED else replace(self, state=SkillState.ACTIVE)


class UsageFile:
    """The usage file with its unknown fields."""

    def __init__(self, kept: Mapping[str, Any]) -> None:
        self._kept = dict(kept)

    @classmethod
    def parse(cls, data: bytes | None) -> "UsageFile":
        """Parse the file; BadSkill if it is invalid and so must not be replaced."""
        loaded = json_object(data) if data and data.strip() else {}
        if loaded is None:
            raise BadSkill(".usage.json is no JSON object; move it away, or mend it.")
        return cls(loaded)

    def get(self, name: str) -> Usage:
        return lenient(self._kept.get(name), Usage)

    @property
    def records(self) -> Mapping[str, Any]:
        return self._kept

    def put(self, name: str, usage: Usage) -> None:
        """Set a skill's record, keeping its unknown fields."""
        before = object_of(self._kept.get(name))
        values = {name: getattr(usage, name) for name in Usage.__struct_fields__}
        kept = {**before, **values, "state": usage.state.value}
        if not usage.archived_from:
            del kept["archived_from"]
        self._kept[name] = kept

    def with_records(self, records: Mapping[str, Usage]) -> "UsageFile":
        changed = UsageFile(self._kept)
        for name, usage in records.items():
            changed.put(name, usage)
        return changed

    def encoded(self) -> bytes:
        return (json.dumps(self._kept, indent=2, ensure_ascii=False) + "\n").encode()


def timestamp(moment: datetime) -> str:
    """Return a time in the file's format."""
    return moment.astimezone(UTC).isoformat()


def moment(text: str | None) -> datetime | None:
    """Parse a time of the file; None if invalid. Without a zone it is UTC."""
    try:
        found = datetime.fromisoformat(text or "")
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        # Times on the first or last possible day may overflow in UTC.
        return None
