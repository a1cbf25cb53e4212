"""What PostgreSQL finds messages by beside their words, as its index has no order and no places.

A message is marked with the spans of time that it is in, so that the newest matches are found in
one slice of time after the other; and with the pairs of short words that are in a row in it, so
that a phrase of words that are everywhere is looked for in few messages.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from zlib import crc32

SPANS = (53, 50, 47, 44, 41, 38, 35)
"""How many bits of an id make 102 days, 13 days, 38 hours and so on, down to 34 seconds."""
_MOST_SPANS = 100
"""A slice of more of the longest, which is one with a strange date, is not told by spans."""
_SHORT = 3
"""Characters of the words whose pairs are marked: those that are everywhere are short."""
_PAIRS = 1 << 16
"""So many pairs are told apart: with fewer each has a long list, of which PostgreSQL writes the
whole again when a message is added."""
_MOST_TOGETHER = 8
"""So many samples are between two slices at most."""


def pairs(terms: str) -> list[str]:
    """The marks of what has these words in a row."""
    found = [
        f"Q{crc32(f'{one} {next_}'.encode()) % _PAIRS:x}"
        for one, next_ in pairwise(terms.split())
        if len(one) <= _SHORT and len(next_) <= _SHORT
    ]
    return list(dict.fromkeys(found))


def spans(first: int, last: int) -> list[str]:
    """The marks of all ids from one to another; so that they are few, some of others near them."""
    slack = (last - first) // 8
    begin, end = _roundest(first - slack - 1, first), _roundest(last, last + slack + 1)
    return list(_spans(begin, end)) if (end - begin) >> SPANS[0] <= _MOST_SPANS else []


def slices(first: int, last: int, samples: Sequence[int], wide: int) -> Iterator[tuple[int, int]]:
    """Parts of the ids from one to another, the latest first; both ends are included.

    `samples` are some of the ids between them, the latest first, as dense as all are: a part has
    about `wide` of them at the beginning, and more the farther back it is. Parts begin and end
    where long spans do.
    """
    at = wide - 1
    while at < len(samples):
        older = at + max(1, wide // 2)
        edge = _roundest(samples[older] if older < len(samples) else first - 1, samples[at])
        yield edge, last
        last = edge - 1
        wide = min(2 * wide, max(wide, _MOST_TOGETHER))
        at = older + wide - 1
    if first <= last:
        yield first, last


def _spans(at: int, end: int) -> Iterator[str]:
    at = at >> SPANS[-1] << SPANS[-1]
    while at < end:
        fitting = (bits for bits in SPANS if not at % (1 << bits) and at + (1 << bits) <= end)
        bits = next(fitting, SPANS[-1])
        yield f"T{bits}x{at >> bits:x}"
        at += 1 << bits


def _roundest(above: int, most: int) -> int:
    """Of the numbers above one up to another that which the longest spans begin with."""
    zeros = (above ^ most).bit_length() - 1
    return most >> zeros << zeros
