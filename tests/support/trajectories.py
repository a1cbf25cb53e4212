"""Trajectories of an agent that works with a terminal."""

import random
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from services.home.trajectories.trajectory import Call, Facts, Message, Trajectory

TOOLS = '[{"name": "terminal", "parameters": {"type": "object"}}]'


def corpus(count: int) -> Iterator[Trajectory]:
    """Yield runs of an agent that reads files; one in ten reads some kilobytes of each."""
    chance = random.Random(7)
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    text = "".join(file.read_text(encoding="utf-8") for file in files)
    for number in range(count):
        messages = [Message("user", f"Fix {number}: {_part(text, 100, chance)}")]
        for step in range(chance.randint(2, 6)):
            length = chance.randint(3500, 6000) if number % 10 == 0 else chance.randint(25, 300)
            calls = [Call(f"c{step + more}", "terminal", "{}") for more in (0, 100)]
            messages += [
                Message("assistant", "", "Look first.", calls),
                Message("tool", _part(text, length, chance), call_id=calls[0].id),
                Message("tool", "½ done", call_id=calls[1].id),
            ]
        messages.append(Message("assistant", "It is fixed.", "Done."))
        yield Trajectory(
            *("Prompt.", TOOLS, messages, "2026-01-02T03:00:00", "m"),
            completed=True,
            facts=Facts(id=str(number)),
        )


def _part(text: str, length: int, chance: random.Random) -> str:
    at = chance.randrange(len(text) - length)
    return text[at : at + length]
