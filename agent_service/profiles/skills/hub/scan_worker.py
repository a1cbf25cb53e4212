"""Scans a skill in a process of its own, which may hang or crash on hostile input."""

import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from agent_service.profiles.skills.hub.scanner import SkillScanner
from agent_service.profiles.skills.hub.source import HubRefused
from agent_service.profiles.skills.hub.verdicts import Review
from agent_service.security.scripts import ScriptFailed, answer_of
from agent_service.security.threats import ThreatScanner
from services.validation import decode

LIMIT_S = 120.0


def main() -> None:
    """Read files from standard input and print the findings."""
    files = decode(sys.stdin.buffer.read(), dict[str, bytes])
    review = SkillScanner(ThreatScanner()).review(files)
    sys.stdout.buffer.write(msgspec.json.encode(review))


async def looked_through(name: str, files: Mapping[str, bytes]) -> Review:
    """Scan a skill's files; HubRefused if the scan fails."""
    try:
        answer = await answer_of(Path(__file__), msgspec.json.encode(dict(files)), LIMIT_S)
        return decode(answer, Review)
    except (ScriptFailed, msgspec.MsgspecError):
        raise HubRefused(
            f"{name} cannot be looked through within {LIMIT_S:g} s and 2 GB, so that nobody can "
            "say what it does"
        ) from None


if __name__ == "__main__":
    main()
