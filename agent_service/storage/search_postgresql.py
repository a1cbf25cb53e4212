"""Finds the newest matches on PostgreSQL, in one slice of time after the other.

Its index of words has no order: it would tell all matches before the newest is known. But it is
fast at telling which messages have some words and are of some time, so it is asked for a slice of
the newest first, and for the next as long as there are not enough.
"""

from collections.abc import Iterator, Mapping

import sqlalchemy as sa
from sqlalchemy import Connection

from agent_service.storage.search_marks import pairs, slices, spans
from agent_service.storage.search_schema import SAMPLED, WORDS
from agent_service.storage.search_wanted import Find, Wanted

_SAMPLES = sa.text(f"""
SELECT min(id), max(id), ARRAY(
  SELECT id FROM message_text
  WHERE profile = :profile AND {SAMPLED} AND id BETWEEN :least AND :greatest ORDER BY id DESC
) FROM message_text""")  # noqa: S608 - constants
_A_SAMPLE = 1021
"""Messages for each that is sampled."""
_FIND = """
SELECT found.id
FROM unnest(CAST(:firsts AS bigint[]), CAST(:lasts AS bigint[]), CAST(:times AS text[]))
  AS slice (first, last, times)
CROSS JOIN LATERAL (
  SELECT id FROM message_text
  WHERE {words} @@ CAST(:query AS tsquery) AND {words} @@ CAST(slice.times AS tsquery)
    AND id + 0 BETWEEN slice.first AND slice.last AND profile = :profile {conditions}
  ORDER BY id + 0 DESC
) found LIMIT :enough"""
"""A slice is looked into when those before it had too few; by sums only the index of words can.

The mark of a profile stands among the words, some of which once looked like one.
"""
_IN_A_ROW = "strpos(' ' || terms || ' ', :{name}) > 0"
_BETWEEN = "AND sequence BETWEEN :from_sequence AND :to_sequence"

_Range = tuple[int, int]


def find(conn: Connection, wanted: Wanted, enough: int) -> Find:
    """How to find the ids of the newest matches."""
    query = _tsquery(wanted)
    places = list(_places(conn, wanted, enough))
    conditions, phrases = _conditions(wanted)
    values = {
        "query": query,
        "firsts": [first for (first, _), _ in places],
        "lasts": [last for (_, last), _ in places],
        "times": [" | ".join(map(_quoted, times)) or query for _, times in places],
        "enough": enough,
    }
    sql = _FIND.format(words=WORDS, conditions=conditions)
    return Find(sql, {**wanted.limits(), **values, **phrases, "profile": wanted.profile})


def _places(conn: Connection, wanted: Wanted, enough: int) -> Iterator[tuple[_Range, list[str]]]:
    """Where to look, one after the other, and the spans of time that it is in."""
    limits = wanted.limits()
    least, greatest = limits["least"], limits["greatest"]
    if wanted.session_id:
        yield (least, greatest), []
        return
    between = {"profile": wanted.profile, "least": least, "greatest": greatest}
    oldest, latest, samples = conn.execute(_SAMPLES, between).one()
    if oldest is None:
        return
    first, last = max(least, oldest), min(greatest, latest)
    for part in slices(first, last, samples, 1 + enough // _A_SAMPLE):
        yield part, spans(*part)


def _tsquery(wanted: Wanted) -> str:
    """What the index is asked."""
    wants, never = wanted.scope()
    parts = [*map(_quoted, wants), *(f"!{_quoted(name)}" for name in never)]
    for group in wanted.query.groups:
        phrases = (" & ".join(map(_quoted, _told(phrase))) for phrase in group)
        parts += [f"({' | '.join(phrases)})"]
    return " & ".join(parts)


def _told(phrase: str) -> list[str]:
    """What the index can tell of a phrase: its pairs where it knows all of them, else its words."""
    words, known = phrase.split(), pairs(phrase)
    return known if len(known) == len(words) - 1 and known else [*words, *known]


def _quoted(name: str) -> str:
    """A word or token, which has nothing but letters and digits."""
    return f"'{name}'"


def _conditions(wanted: Wanted) -> tuple[str, Mapping[str, str]]:
    """What the index cannot tell: the sequence, and whether words are in a row."""
    conditions = [_BETWEEN] if wanted.between else []
    phrases: dict[str, str] = {}
    for group in wanted.query.groups:
        if not any(" " in phrase for phrase in group):
            continue
        ways: list[str] = []
        for phrase in group:
            name = f"phrase_{len(phrases)}"
            phrases[name] = f" {phrase} "
            ways.append(_IN_A_ROW.format(name=name))
        conditions.append(f"AND ({' OR '.join(ways)})")
    return " ".join(conditions), phrases
