"""Whether a reason says anything about what a skill says, and not only how often it was used."""

import re

_WORD = re.compile(r"[^\W\d_]{3,}")
_OF_USE = """
use used uses using usage unused user users view viewed views viewing read reads reading count
counts counter counters times time never rarely seldom hardly barely often frequently little low
zero none once twice recent recently old older stale inactive activity active idle long ago last
since day days week weeks month months year years statistics stats number frequency popular
unpopular much enough ever yet anymore any more
"""
_SMALL = """
the and but for not has had have was were are been being its this that these those with without
from into only also very too just all than then there their they can could should would may
might because skill skills nobody anyone anybody somebody people agent library who what which
when prune pruned archive archived remove removed delete deleted merge merged keep kept
"""
_EMPTY = frozenset(f"{_OF_USE} {_SMALL}".split())
_MIN_WORDS = 2


def is_about_content(reason: str) -> bool:
    """Whether anything is left of a reason without the words that tell of use."""
    words = {word.lower() for word in _WORD.findall(reason)}
    return len(words - _EMPTY) >= _MIN_WORDS
