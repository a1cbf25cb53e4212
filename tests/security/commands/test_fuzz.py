"""Input that nobody meant: whatever comes, a verdict comes of it.

`HERMES_FUZZ_INPUTS` says how much of it, and `HERMES_FUZZ_SEED` which; CI gives 100,000. What
breaks it is told in its smallest form.
"""

import os
import random
from collections.abc import Sequence

import pytest

from agent_service.security.commands.classifier import CommandClassifier
from agent_service.security.commands.families import CommandClass
from tests.security.commands.test_commands import SPELLINGS

INPUTS = int(os.environ.get("HERMES_FUZZ_INPUTS", "1000"))
SEED = os.environ.get("HERMES_FUZZ_SEED", "1")
AT_ONCE = 2_500
CLASSIFIER = CommandClassifier()

TOKENS = [
    *"'\"`)}{|;\\$*[]><\0\x91é~!#= /&\n",
    *("$(", "${", "<<E\n", "\nE\n", "&&", "<(", "((", "))", "{a,b}", "{1..99}"),
    *("rm", " -rf ", "sh -c ", "eval ", "xargs ", "curl x", "x=", "\U0001f600", "\U000f0000"),
]
ALPHABETS = [range(0x20, 0x7F)] * 4 + [range(0x100), range(0xD800), range(0xE000, 0x110000)]
"""Of a letter; most are those of ordinary commands."""


def pieces(dice: random.Random) -> list[str]:
    """An input: tokens and letters at random, or a known command with a token in it."""
    if dice.random() < 0.5:
        return [
            dice.choice(TOKENS) if dice.random() < 0.5 else letters(dice) for _ in some(dice, 30)
        ]
    command, at = dice.choice(SPELLINGS)["command"], dice.randint(0, 60)
    return [*command[:at], dice.choice(TOKENS), *command[at:]]


def letters(dice: random.Random) -> str:
    return "".join(chr(dice.choice(dice.choice(ALPHABETS))) for _ in some(dice, 6))


def some(dice: random.Random, most: int) -> range:
    return range(dice.randint(0, most))


def trouble(made: Sequence[str]) -> str:
    """What is wrong with the verdict on an input; empty where nothing is."""
    try:
        verdict = CLASSIFIER.classify("".join(made))
    except Exception as error:  # noqa: BLE001 - any of them is what is looked for
        return repr(error)
    is_bad = verdict.kind in (CommandClass.DANGEROUS, CommandClass.HARDLINE)
    return "" if bool(verdict.families) is is_bad else f"{verdict}"


def smallest(made: list[str]) -> str:
    """What is left of an input when no piece of it can be left out without the trouble going."""
    at = 0
    while at < len(made):
        fewer = made[:at] + made[at + 1 :]
        made, at = (fewer, 0) if trouble(fewer) else (made, at + 1)
    return "".join(made)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("begin", range(0, INPUTS, AT_ONCE))
def test_no_input_breaks_it(begin: int) -> None:
    dice = random.Random(f"{SEED}/{begin}")
    for _ in range(min(AT_ONCE, INPUTS - begin)):
        made = pieces(dice)
        if trouble(made):
            found = smallest(made)
            pytest.fail(f"{found!r}: {trouble([found])}")
