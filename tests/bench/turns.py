"""Turns, from the user's message on an open conversation to the event that ends them."""

from statistics import median

from services.rpc.channels import Channels
from tests.bench.conversation import Timing, conversation
from tests.bench.figures import Plan, Reading, Spread
from tests.bench.hermes import hermes
from tests.bench.model_direct import DirectModel, direct_model, request_of_hermes
from tests.bench.model_process import COMMAND, PLAIN, SLEEPS, model_process
from tests.bench.sandboxes import engine_at_rest, release_all

PLAIN_TURNS = 10
"""Make a session of 20 messages."""

_TURNS_PER_SESSION = 5
"""Measured before there is a new session, so that all have about 20 messages."""


async def plain(plan: Plan) -> list[Reading]:
    """Measure turns without tools, and beside each the model called directly."""
    body = await request_of_hermes(plan.folder / "request", PLAIN_TURNS)
    turns: list[Timing] = []
    calls: list[Timing] = []
    async with (
        model_process() as url,
        hermes(plan.folder / "plain", url) as running,
        direct_model(url, body) as model,
    ):
        while len(turns) < plan.samples:
            await _plain_session(running.channels, model, turns, calls)
    added_ms = [turn.first_ms - call.first_ms for turn, call in zip(turns, calls, strict=True)]
    return [
        Reading("turn_plain_ms", Spread.of([turn.last_ms for turn in turns])),
        Reading("first_token_added_ms", Spread.of(added_ms)),
        Reading(
            "model_direct_ms",
            Spread.of([call.last_ms for call in calls]),
            f"a request of {len(body) / 1000:.0f} kB",
        ),
    ]


async def _plain_session(
    channels: Channels, model: DirectModel, turns: list[Timing], calls: list[Timing]
) -> None:
    async with conversation(channels, PLAIN_TURNS) as talk:
        await model.ask()
        for _ in range(_TURNS_PER_SESSION):
            turns.append(await talk.ask(PLAIN))
            calls.append(await model.ask())


async def with_commands(plan: Plan) -> list[Reading]:
    """Measure turns with one command, and with four at once, in sandboxes that had one before."""
    times_ms: list[float] = []
    sleeps_s: list[float] = []
    used: set[str] = set()
    async with model_process() as url, hermes(plan.folder / "commands", url) as running:
        while len(times_ms) < plan.samples:
            async with conversation(running.channels, PLAIN_TURNS - 2) as talk:
                await talk.ask(COMMAND)
                # The session took the sandbox that was ready, and the pool makes another.
                await running.started.until_warm()
                await engine_at_rest()
                asked = [await talk.ask(COMMAND) for _ in range(_TURNS_PER_SESSION)]
                times_ms += [timing.last_ms for timing in asked]
                if len(sleeps_s) < plan.repeats:
                    sleeps_s.append((await talk.ask(SLEEPS)).last_ms / 1_000)
            used |= await release_all(running.channels)
            await running.started.until_warm()
    note = f"in {', '.join(sorted(used))}"
    return [
        Reading("turn_terminal_ms", Spread.of(times_ms), note),
        Reading("four_sleeps_s", round(median(sleeps_s), 3), note),
    ]
