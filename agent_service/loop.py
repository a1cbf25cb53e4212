"""The turn loop: prompt, model, tools, append, check budget.

The loop yields what happens and changes nothing itself. Live events are only shown. A tuple of
facts is committed as one transaction and applied to the turn before the loop is resumed, so that
whatever it does next rests on what is in the journal.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from agent_service.context.compressor import Compressor
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
from agent_service.models.errors import ModelError, ModelErrorKind
from agent_service.tools.toolbox import Toolbox

Step = Live | tuple[Fact, ...]


@dataclass(frozen=True, slots=True)
class LoopParts:
    """What every turn is driven with."""

    model: base.Model
    toolbox: Toolbox
    compressor: Compressor


async def run_turn(turn: LiveTurn, parts: LoopParts) -> AsyncGenerator[Step]:
    """Drive a turn from wherever it stands to its end, or to where a person has to decide."""
    while True:
        if turn.pending:
            async with aclosing(parts.toolbox.run(turn)) as outcomes:
                async for outcome in outcomes:
                    yield outcome
            if turn.waits_for_person:
                return
        if turn.model_calls >= turn.max_model_calls:
            yield (_limit_reached(turn),)
            return
        message: base.ModelMessage | None = None
        async with aclosing(_answer(turn, parts)) as answer:
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


async def _answer(turn: LiveTurn, parts: LoopParts) -> AsyncGenerator[Step | base.ModelMessage]:
    """Ask the model for what the conversation, which is made shorter where it must be, leads to."""
    compressor, tools = parts.compressor, parts.toolbox.schemas(turn.toolsets)
    is_refused = False
    while True:
        if is_refused or compressor.is_due(turn, tools):
            async with aclosing(compressor.run(turn, tools, is_refused=is_refused)) as steps:
                async for step in steps:
                    yield step
        try:
            async with aclosing(_ask(turn, parts.model, tools)) as answer:
                async for event in answer:
                    yield event
        except ModelError as error:
            if error.kind is not ModelErrorKind.CONTEXT_OVERFLOW or is_refused:
                raise
            is_refused = True
        else:
            return


async def _ask(
    turn: LiveTurn, model: base.Model, tools: bytes
) -> AsyncGenerator[Live | base.ModelMessage]:
    request = base.ModelRequest(
        model=turn.model,
        messages=turn.messages,
        tools=tools,
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
