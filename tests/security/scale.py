"""How hard the adversarial tests attack: as CI does by default, or as hard as they are written."""

import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    """The sizes of all attacks."""

    flood_s: float
    """How long a command floods its output."""
    slow_reader_s: float
    """How long a reader does not read."""
    kills: int
    """How often an executor is killed, with twenty commands running."""
    kills_elsewhere: int
    """The same, on the backends that are slower to set up."""
    cycles: int
    """Times that a sandbox is acquired, used and released."""
    files: int
    """Empty files that somebody tries to make."""
    every_nth: int
    """Which attacks of a hostile supervisor are made where making sandboxes takes longer."""
    fuzzed: int
    """Random answers of a hostile supervisor."""
    output_mib: int
    """What a command writes to somebody who reads all of it."""
    output_elsewhere_mib: int
    """The same, on the backends that are slower."""
    memory_operations: int
    """Changes that each of sixteen writers makes of one memory."""
    guesses: int
    """Pairing codes that a thousand strangers try."""
    rounds: int
    """Times that a neighbour is measured with the attack and without, in turn."""


_SCALES = {
    "ci": Scale(
        flood_s=3,
        slow_reader_s=5,
        kills=5,
        kills_elsewhere=5,
        cycles=120,
        files=80_000,
        every_nth=4,
        fuzzed=20,
        output_mib=256,
        output_elsewhere_mib=200,
        memory_operations=25,
        guesses=1_000,
        rounds=4,
    ),
    "full": Scale(
        flood_s=30,
        slow_reader_s=60,
        kills=50,
        kills_elsewhere=50,
        cycles=10_000,
        files=1_000_000,
        every_nth=1,
        fuzzed=1_000,
        output_mib=1024,
        output_elsewhere_mib=1024,
        memory_operations=1000,
        guesses=100_000,
        rounds=25,
    ),
}


def scale_name() -> str:
    """What HERMES_SCALE says: `full`, or else `ci`."""
    return os.environ.get("HERMES_SCALE") or "ci"


def scale() -> Scale:
    """The sizes to attack with."""
    return _SCALES[scale_name()]
