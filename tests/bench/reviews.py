"""What turns lose to reviews that run beside them."""

from pathlib import Path
from typing import Any

from services.channels import Channels
from tests.bench.conversation import conversation
from tests.bench.figures import Plan, Reading, Spread
from tests.bench.hermes import hermes
from tests.bench.model_process import PLAIN, SCRIPT, model_process

_TURNS_PER_SESSION = 10
_LOOK_S = 0.1
_LOOK: dict[str, Any] = {
    "tool_calls": [{"name": "skills_list", "arguments": {}}],
    "latency_s": _LOOK_S,
}
_MODEL = {
    "rules": [
        {
            "user": "look back at the conversation above",
            "steps": [*[_LOOK] * 10, {"text": "Nothing."}],
        },
        *SCRIPT["rules"],
    ]
}


async def beside(plan: Plan) -> list[Reading]:
    """Measure turns with a review after each, and without any, by turns."""
    added_ms: list[float] = []
    async with (
        model_process(_MODEL) as url,
        hermes(_home(plan.folder / "reviews", 1), url) as reviewing,
        hermes(_home(plan.folder / "no_reviews", 0), url) as plain,
    ):
        while len(added_ms) < plan.samples:
            added_ms += await _session(reviewing.channels, plain.channels)
    note = "at most two run at a time, each with 11 model calls"
    return [Reading("review_added_ms", Spread.of(added_ms), note)]


async def _session(reviewing: Channels, plain: Channels) -> list[float]:
    """What turns of one took longer than those of the other."""
    added_ms: list[float] = []
    async with conversation(reviewing, 2) as one, conversation(plain, 2) as other:
        for _ in range(_TURNS_PER_SESSION):
            with_reviews, without = await one.ask(PLAIN), await other.ask(PLAIN)
            added_ms.append(with_reviews.last_ms - without.last_ms)
    return added_ms


def _home(folder: Path, interval: int) -> Path:
    folder.mkdir()
    settings = f"memory: {{nudge_interval: {interval}}}\ndisplay: {{memory_notifications: off}}\n"
    (folder / "config.yaml").write_text(settings)
    return folder
