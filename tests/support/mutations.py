"""Copies of records of which parts are missing, of another kind, or hostile."""

import copy
import random
from typing import Any

HOSTILE: tuple[Any, ...] = (
    *(None, "", 0, -1, 10**30, 1e308, float("inf"), True, [], {}, [None], {"a": 1}, [[[]]]),
    *("x" * 3000, "x" * 100_000, "9" * 40, "2026-01-01", "/new", "../../etc/passwd", "\r\n.\r\n"),
    *("\u202e\u200b\u2066evil\u2069", "\ud800", "a\0b", "\ufffe\uffff", "\U0001f989" * 50, "<@1>"),
)


def mutated(dice: random.Random, record: Any, *, changes: int = 3) -> Any:
    """Return a copy with up to so many changes."""
    whole = copy.deepcopy(record)
    for _ in range(dice.randint(1, changes)):
        _change(dice, whole)
    return whole


def _change(dice: random.Random, node: Any) -> None:
    while node:
        is_list = type(node) is list
        keys: list[Any] = [*range(len(node))] if is_list else [*node]
        key = dice.choice(keys)
        if type(node[key]) in (dict, list) and node[key] and dice.random() < 0.7:
            node = node[key]
        elif not is_list and dice.random() < 0.3:
            del node[key]
            return
        else:
            node[key] = copy.deepcopy(dice.choice(HOSTILE))
            return
