"""The turn loop: prompt, model, tools, append, check budget.

The loop yields what happens and changes nothing itself. Live events are only shown. A tuple of
facts is committed as one transaction and applied to the turn before the loop is resumed, so that
whatever it does next rests on what is in the journal.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from agent_service.events import (
    Fact,
    Live,
    ModelAnswered,
    Notice,
    Outcome,
    ReasoningDelta,
    TextDelta,
    TurnFinished,
)
from agent_service.live_turn import LiveTurn
from agent_service.models import base
from agent_service.tools.toolbox import Toolbox

Step = Live | tuple[Fact, ...]


async def run_turn(turn: LiveTurn, model: base.Model, toolbox: Toolbox) -> AsyncGenerator[Step]:
    """Drive a turn from wherever it stands to its end, or to where a person has to decide."""
    while True:
        if turn.pending:
            async with aclosing(toolbox.run(turn)) as outcomes:
                async for outcome in outcomes:
                    yield outcome
            if turn.waits_for_person:
                return
        if turn.model_calls >= turn.max_model_calls:
            yield (_limit_reached(turn),)
            return
        message: base.ModelMessage | None = None
        async with aclosing(_ask(turn, model, toolbox)) as answer:
            async for event in answer:
                if isinstance(event, base.ModelMessage):
                    message = event
                else:
                    yield event
        assert message is not None, "a model call ends with its message or raises"
        answered = ModelAnswered(turn.step, message)
        if message.tool_calls:
            yield (answered,)
        else:
            yield answered, TurnFinished(Outcome.COMPLETED, text=message.text)
            return


async def _ask(
    turn: LiveTurn, model: base.Model, toolbox: Toolbox
) -> AsyncGenerator[Live | base.ModelMessage]:
    request = base.ModelRequest(
        model=turn.model,
        messages=turn.messages,
        tools=toolbox.schemas(turn.toolsets),
        max_tokens=turn.max_tokens,
    )
    said = thought = 0
    async with model.stream(request) as events:
        async for event in events:
            match event:
                case base.TextDelta(text):
                    yield TextDelta(turn.step, said, text)
                    said += len(text)
                case base.ReasoningDelta(text):
                    yield ReasoningDelta(turn.step, thought, text)
                    thought += len(text)
                case base.ModelRetry():
                    said = thought = 0
                    yield Notice(f"{event.message} Trying again {_after(event.delay_s)}.")
                case base.ModelMessage():
                    yield event


def _after(delay_s: float) -> str:
    return f"in {delay_s:.0f} s" if delay_s >= 1 else "now"


def _limit_reached(turn: LiveTurn) -> TurnFinished:
    return TurnFinished(
        Outcome.LIMIT_REACHED,
        message=(
            f"The turn made {turn.model_calls} model calls, its limit. "
            "Say “go on” to continue, or raise agent.max_turns."
        ),
    )
