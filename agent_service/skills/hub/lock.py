"""`.hub/lock.json`: what was installed, from where, as what, and what was said of it."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec
from msgspec import Struct

from agent_service.skills.hub.errors import HubRefused
from agent_service.skills.library import HUB

_TABLES = ("installed", "skills")


class Installed(Struct, frozen=True):
    """A skill of a hub; times are ISO 8601 in UTC."""

    source: str = ""
    """As `source.parsed` reads it; of an entry that another program has made, whatever it says."""
    identifier: str = ""
    """Where in the source it is."""
    trust_level: str = ""
    scan_verdict: str = ""
    content_hash: str = ""
    install_path: str = ""
    files: Sequence[str] = ()
    version: str = ""
    """The version that it says it has."""
    commit: str = ""
    """The commit that it is of; empty where the source has none."""
    accepted: Sequence[str] = ()
    """The families that a person has accepted."""
    installed_at: str = ""
    updated_at: str = ""


class LockFile:
    """The file, with whatever else it has."""

    def __init__(self, kept: Mapping[str, Any]) -> None:
        new: dict[str, Any] = {"version": 1, "installed": {}}
        self._kept: dict[str, Any] = dict(kept or new)
        self._where = next((each for each in _TABLES if each in self._kept), "")

    @classmethod
    def parse(cls, data: bytes | None) -> "LockFile":
        """The file; HubRefused where it must not be written anew."""
        try:
            loaded = json.loads((data or b"{}").decode("utf-8-sig"))
        except (ValueError, RecursionError):
            loaded = None
        if not isinstance(loaded, dict):
            raise HubRefused(f"{HUB} of the skills is no JSON object; move it away, or mend it")
        found = cls(cast("dict[str, Any]", loaded))
        if not isinstance(found._table(), dict):
            raise HubRefused(f"{HUB} of the skills has another form than ours; move it away")
        return found

    @property
    def names(self) -> Sequence[str]:
        """The skills."""
        return sorted(name for name, value in self._entries().items() if isinstance(value, dict))

    def of(self, name: str) -> Installed | None:
        """What is known of a skill."""
        found = self._entries().get(name)
        if not isinstance(found, dict):
            return None
        fields = cast("dict[str, Any]", found)
        known: dict[str, Any] = {}
        for field in Installed.__struct_fields__:
            value = fields.get(field)
            is_list = isinstance(getattr(Installed(), field), tuple)
            if isinstance(value, list if is_list else str):
                known[field] = (
                    [str(each) for each in cast("list[Any]", value)] if is_list else value
                )
        return Installed(**known)

    def put(self, name: str, entry: Installed | None) -> None:
        """Note a skill, with what its entry had that we do not know, or forget it."""
        table = dict(self._entries())
        before = table.pop(name, None)
        if entry is not None:
            kept = cast("dict[str, Any]", before) if isinstance(before, dict) else {}
            table[name] = {**kept, **msgspec.to_builtins(entry)}
        if self._where:
            self._kept[self._where] = table
        else:
            self._kept = table

    def encoded(self) -> bytes:
        """The file."""
        return (json.dumps(self._kept, indent=2, ensure_ascii=False) + "\n").encode()

    def _table(self) -> object:
        return self._kept[self._where] if self._where else self._kept

    def _entries(self) -> Mapping[str, Any]:
        return cast("dict[str, Any]", self._table())
