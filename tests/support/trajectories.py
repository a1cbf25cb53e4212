"""Trajectories of an agent that works with a terminal."""

import random
from collections.abc import Iterator

from services.home.trajectories.trajectory import Call, Facts, Message, Trajectory

TOOLS = '[{"name": "terminal", "parameters": {"type": "object"}}]'
_WORDS = "the build of the parser fails because a token is missing in this line".split()  # noqa: SIM905


def corpus(count: int) -> Iterator[Trajectory]:
    """Yield runs of an agent, of which one in ten has results of some ten kilobytes."""
    chance = random.Random(7)
    for number in range(count):
        messages = [Message("user", f"Fix {number}: {' '.join(chance.choices(_WORDS, k=20))}")]
        for step in range(chance.randint(2, 6)):
            length = chance.randint(700, 1200) if number % 10 == 0 else chance.randint(5, 60)
            output = " ".join(chance.choices(_WORDS, k=length))
            calls = [Call(f"c{step + more}", "terminal", "{}") for more in (0, 100)]
            messages += [
                Message("assistant", "", "Look first.", calls),
                Message("tool", output, call_id=calls[0].id),
                Message("tool", "½ done", call_id=calls[1].id),
            ]
        messages.append(Message("assistant", "It is fixed.", "Done."))
        yield Trajectory(
            *("Prompt.", TOOLS, messages, "2026-01-02T03:00:00", "m"),
            completed=True,
            facts=Facts(id=str(number)),
        )
