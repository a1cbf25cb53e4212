"""Finds the newest matches on SQLite, whose FTS5 walks through its index from the newest on."""

from agent_service.storage.search_wanted import Find, Wanted

_NEWEST = """
SELECT rowid FROM message_fts
WHERE message_fts MATCH :match AND rowid BETWEEN :least AND :greatest
ORDER BY rowid DESC LIMIT :enough"""
_NEWEST_BETWEEN = """
SELECT t.id FROM message_fts f JOIN message_text t ON t.id = f.rowid
WHERE f.message_fts MATCH :match AND f.rowid BETWEEN :least AND :greatest
  AND t.sequence BETWEEN :from_sequence AND :to_sequence
ORDER BY t.id DESC LIMIT :enough"""
"""Within one session, so that few are to be sorted."""


def find(wanted: Wanted, enough: int) -> Find:
    """How to find the ids of the newest matches."""
    values = {**wanted.limits(), "match": _match(wanted), "enough": enough}
    return Find(_NEWEST_BETWEEN if wanted.between else _NEWEST, values)


def _match(wanted: Wanted) -> str:
    """The query in the syntax of FTS5; words have nothing but letters and digits."""
    wants, never = wanted.scope()
    scopes = [f'scope : "{name}"' for name in wants]
    groups = (" OR ".join(f'"{phrase}"' for phrase in group) for group in wanted.query.groups)
    said = " AND ".join(f"({group})" for group in groups)
    match = " AND ".join([*scopes, f"terms : ({said})"])
    if never:
        excluded = " OR ".join(f'"{name}"' for name in never)
        match = f"({match}) NOT scope : ({excluded})"
    return match
