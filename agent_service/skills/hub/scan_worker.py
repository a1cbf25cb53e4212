"""Looks through a skill in a process of its own, which may hang, swell or crash on what it reads.

It is run as a file, with the skill's files on its input and what was found on its output.
"""

import resource
import sys
from contextlib import suppress

import msgspec

from agent_service.security.threats import ThreatScanner
from agent_service.skills.hub.scanner import SkillScanner

MEMORY_BYTES = 2_000_000_000
CPU_S = 110


def main() -> None:
    """Read the files, and say what was found in them."""
    _limit(resource.RLIMIT_AS, MEMORY_BYTES)
    _limit(resource.RLIMIT_CPU, CPU_S)
    _limit(resource.RLIMIT_CORE, 0)
    files = msgspec.json.decode(sys.stdin.buffer.read(), type=dict[str, bytes])
    review = SkillScanner(ThreatScanner()).review(files)
    sys.stdout.buffer.write(msgspec.json.encode(review))


def _limit(which: int, amount: int) -> None:
    # Not every system has every limit.
    with suppress(ValueError, OSError):
        resource.setrlimit(which, (amount, amount))


if __name__ == "__main__":
    main()
