"""Texts that nobody meant: whatever comes, the threat scan says where its threats stand.

`HERMES_FUZZ_SEED` says which.
"""

import json
import os
import random
import re
from itertools import pairwise
from pathlib import Path

from agent_service.security.threats import Threat, ThreatScanner

TEXTS = 2_000
SEED = os.environ.get("HERMES_FUZZ_SEED", "1")
SCANNER = ThreatScanner()
ORDERS = [
    json.loads(line)["text"]
    for line in (Path(__file__).parent / "orders.jsonl").read_text().splitlines()
]
TOKENS = [
    *"\n\t .!?<>[]()`'\"#*_|-=%&;:/\\\0\x85\xa0",
    *("\r\n", "<!--", "-->", "```", "](", "%69", "&#105;", "\\u0069", "SWdub3Jl", "= \n"),
    *("\u200b", "\u202e", "\u0337", "\ufeff", "\U000e0041", "\ud800", "\U0010ffff", "ﬁ", "İ"),
    *("你", "忽略", "\u0456", "\uff11", "👩\u200d👩", "ignore ", "you ", "your rules "),
    *("the user ", "secret ", "tidy words " * 30),
]
BLOCKED = re.compile(r"\[BLOCKED: [\w, -]+\]")


def text_of(dice: random.Random) -> str:
    """Tokens at random, or an order with some of them in it."""
    tokens = [dice.choice(TOKENS) for _ in range(dice.randint(0, 12))]
    if dice.random() < 0.4:
        return "".join(tokens)
    order = dice.choice(ORDERS)[:80]
    cuts = [0, *sorted(dice.randint(0, len(order)) for _ in tokens), len(order)]
    pieces = [order[begin:end] for begin, end in pairwise(cuts)]
    return "".join(piece + token for piece, token in zip(pieces, [*tokens, ""], strict=True))


def kept(text: str, threats: tuple[Threat, ...]) -> str:
    """What of a text belongs to no threat."""
    taken = {at for threat in threats for at in range(threat.begin, threat.end)}
    return "".join(letter for at, letter in enumerate(text) if at not in taken)


def test_no_text_breaks_it_and_all_but_its_threats_is_kept() -> None:
    dice, found = random.Random(SEED), 0
    for _ in range(TEXTS):
        text = text_of(dice)
        cleaned, threats = SCANNER.clean(text)
        assert all(0 <= each.begin < each.end <= len(text) for each in threats), repr(text)
        assert BLOCKED.sub("", cleaned) == kept(text, threats), repr(text)
        found += bool(threats)
    assert TEXTS / 5 < found < TEXTS
