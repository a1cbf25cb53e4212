"""What goes wrong in the Bot API server for tests."""

import asyncio
import random
from collections import defaultdict
from dataclasses import dataclass, field

from tests.fakes.telegram_rules import Refused

REFUSALS = {
    "limited": Refused(429, "Too Many Requests: retry after 1", retry_after=1),
    "forbidden": Refused(403, "Forbidden: bot was blocked by the user"),
    "no_thread": Refused(400, "Bad Request: message thread not found"),
    "unformatted": Refused(400, "Bad Request: can't parse entities: unsupported start tag"),
}


@dataclass(slots=True)
class Faults:
    """How often something goes wrong, and what is to go wrong next."""

    drop_before: float = 0.0
    drop_after: float = 0.0
    limited: float = 0.0
    redeliver: float = 0.0
    delay_s: float = 0.0
    planned: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """By method: `drop_before`, `drop_after`, `limited`, `forbidden`, `no_thread`, `unformatted` or
    `hang`, in turn; `odd` is a place of a file that is none."""
    released: asyncio.Event = field(default_factory=asyncio.Event)
    """Until then what hangs has no answer."""
    dice: random.Random = field(default_factory=lambda: random.Random(1))

    def next(self, method: str) -> str:
        if self.planned[method]:
            return self.planned[method].pop(0)
        for name in ("drop_before", "drop_after", "limited"):
            if self.dice.random() < getattr(self, name):
                return name
        return ""
