"""The turn loop: prompt, model, tools, append, check budget.

The loop yields what happens and changes nothing itself. Live events are only shown. A tuple of
facts is committed in one transaction and applied to the turn before the loop resumes, so each step
is based on what is in the journal.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from datetime import tzinfo

from msgspec import Struct
from msgspec.structs import replace

from agent_service.prompt.compression.compressor import Compressor, counted_rate
from agent_service.records import model as base
from agent_service.records.commands import (
    Consulted,
    ContextCompressed,
    Fact,
    FilesRead,
    ModelAnswered,
    Prompted,
    Switched,
)
from agent_service.records.events import (
    Live,
    Notice,
    Outcome,
    PromptProgress,
    ReasoningDelta,
    TextDelta,
    TurnFinished,
)
from agent_service.records.model_errors import ModelError, ModelErrorKind
from agent_service.records.requests import COMPRESS
from agent_service.records.sent_history import sent_history
from agent_service.records.turn_state import STOP_AT, LiveTurn
from agent_service.tools.toolbox import Toolbox
from agent_service.turns.answer_files import AnswerFiles, pending_answer
from agent_service.turns.continuation import CUT_OFF, GO_ON, can_continue, command_call, cut_pieces
from agent_service.turns.file_reader import FileReader
from agent_service.turns.script_turns import Scripts
from services.amounts import plural

Step = Live | tuple[Fact, ...]


class LoopParts(Struct, frozen=True):
    """What turns are driven with."""

    model: base.Model
    beside: base.Model
    """The same model for calls outside the conversation; it has no fallback."""
    toolbox: Toolbox
    scripts: Scripts
    compressor: Compressor
    files: AnswerFiles
    reader: FileReader
    redact: Callable[[str], str]
    zone: tzinfo | None = None
    """The user's time zone; None is the system's."""
    recall: Callable[[LiveTurn], Awaitable[Fact | None]] | None = None


def run_turn(turn: LiveTurn, parts: LoopParts) -> AsyncGenerator[Step]:
    """Drive a turn from its current state to its end, or until a person must decide."""
    if turn.script is not None or turn.unread:
        return _begin(turn, parts)
    return _compress(turn, parts) if turn.kind == COMPRESS else _converse(turn, parts)


async def _begin(turn: LiveTurn, parts: LoopParts) -> AsyncGenerator[Step]:
    """Run the turn's script, read the message's files, and continue if anything is left to do."""
    script, ran = turn.script, (Prompted(turn.request.text),)
    *before, last = ran if script is None else await parts.scripts.run(turn, script)
    if turn.unread and isinstance(last, Prompted):
        async with aclosing(parts.reader.run(turn, parts.beside, last.text)) as read:
            async for facts in read:
                # The script's end is committed with the message, which also says what it printed.
                yield (*before, *facts) if isinstance(facts[-1], FilesRead) else facts
    else:
        yield (*before, last)
    if not turn.waits_for_person and not turn.finished:
        async with aclosing(_converse(turn, parts)) as steps:
            async for step in steps:
                yield step


async def _converse(turn: LiveTurn, parts: LoopParts) -> AsyncGenerator[Step]:
    while not turn.finished:
        if turn.pending:
            async with aclosing(parts.toolbox.run(turn)) as outcomes:
                async for outcome in outcomes:
                    yield outcome
            if turn.waits_for_person or turn.finished:
                return
        if (ended := await _end_without_call(turn, parts.files)) is not None:
            yield (ended,)
            return
        if parts.recall is not None and (recalled := await parts.recall(turn)) is not None:
            yield (recalled,)
        message: base.ModelMessage | None = None
        async with aclosing(_answer(turn, parts)) as answer:
            async for event in answer:
                if isinstance(event, base.ModelMessage):
                    message = parts.toolbox.normalize(turn, event)
                else:
                    yield event
        assert message is not None, "a model call ends with its message or raises"
        yield _answer_facts(turn, message, parts)


def _answer_facts(turn: LiveTurn, message: base.ModelMessage, parts: LoopParts) -> tuple[Fact, ...]:
    rate = counted_rate(turn, _tool_schemas(turn, parts), message)
    answered = ModelAnswered(turn.step, message, rate, parts.compressor.window_of(turn.model))
    if message.tool_calls:
        return (answered,)
    if can_continue(turn, message):
        return answered, Prompted(GO_ON)
    finished = _finish(turn, message)
    if finished.outcome is Outcome.COMPLETED and parts.files.are_in(turn, finished.text):
        return (answered,)  # the answer is stored before its files are sent
    return answered, finished


async def _end_without_call(turn: LiveTurn, files: AnswerFiles) -> TurnFinished | None:
    """Return the end of a turn that needs no more model calls; None if it does."""
    if turn.request.is_command and turn.model_calls:
        return TurnFinished(Outcome.COMPLETED)
    if (answer := pending_answer(turn)) is not None:
        return TurnFinished(Outcome.COMPLETED, text=await files.send(turn, answer))
    return _limit_reached(turn)


def _tool_schemas(turn: LiveTurn, parts: LoopParts) -> bytes:
    """Return the tool schemas, which are the same in all requests of the session."""
    return parts.toolbox.schemas(turn.toolsets, turn.overlay)


async def _compress(turn: LiveTurn, parts: LoopParts) -> AsyncGenerator[Step]:
    """Compress the conversation at a person's request, and report the effect."""
    tools, text = _tool_schemas(turn, parts), "There is nothing to compress yet."
    in_vain: Consulted | None = None
    async with aclosing(parts.compressor.run(turn, tools, parts.beside, by_half=True)) as steps:
        async for step in steps:
            match step:
                case (ContextCompressed(after_tokens=after) as made,) if after < made.before_tokens:
                    yield step
                    text = f"Compressed to about {after:,} tokens. All of it can still be found."
                case (ContextCompressed(usage=usage, model=model),):
                    in_vain = Consulted("", model, usage)
                case _:
                    yield step
    finished = TurnFinished(Outcome.COMPLETED, text=text)
    yield (finished,) if in_vain is None else (in_vain, finished)


async def _answer(turn: LiveTurn, parts: LoopParts) -> AsyncGenerator[Step | base.ModelMessage]:
    if turn.request.is_command:
        yield command_call(turn)
        return
    compressor, tools = parts.compressor, _tool_schemas(turn, parts)
    is_refused = False
    while True:
        if is_refused or compressor.is_due(turn, tools):
            # A refusal as too long shows that the window is smaller than assumed.
            compressing = compressor.run(turn, tools, parts.beside, by_half=is_refused)
            async with aclosing(compressing) as steps:
                async for step in steps:
                    yield step
        try:
            async with aclosing(_ask(turn, parts, tools)) as answer:
                async for event in answer:
                    yield event
        except ModelError as error:
            if error.kind is not ModelErrorKind.CONTEXT_OVERFLOW:
                raise
            if is_refused:
                raise compressor.explain_overflow(turn, tools, error) from error
            is_refused = True
        else:
            return


async def _ask(
    turn: LiveTurn, parts: LoopParts, tools: bytes
) -> AsyncGenerator[Step | base.ModelMessage]:
    request = base.ModelRequest(
        model=turn.model,
        messages=sent_history(turn.overlay.apply(turn.messages), parts.zone),
        tools=tools,
        max_tokens=turn.max_tokens,
        route=turn.route,
        purpose=turn.purpose,
    )
    said = thought = 0
    async with parts.model.stream(request) as events:
        async for event in events:
            match event:
                case TextDelta(text):
                    yield TextDelta(text, turn.step, said)
                    said += len(text)
                case ReasoningDelta(text):
                    yield ReasoningDelta(text, turn.step, thought)
                    thought += len(text)
                case PromptProgress():
                    yield replace(event, step=turn.step)
                case base.ModelRetry():
                    said = thought = 0
                    after = f"in {event.delay_s:.0f} s" if event.delay_s >= 1 else "now"
                    yield Notice(f"{event.message} Trying again {after}.")
                case base.ModelWasted(message):
                    yield (Consulted(None, message.model, message.used),)
                case Switched():
                    said = thought = 0
                    yield (event,)
                case Notice() | base.ModelMessage():
                    yield event


def _finish(turn: LiveTurn, message: base.ModelMessage) -> TurnFinished:
    text = "".join([*cut_pieces(turn.messages), message.text])
    if message.finish_reason != CUT_OFF:
        return TurnFinished(Outcome.COMPLETED, text=text)
    return TurnFinished(
        Outcome.LIMIT_REACHED,
        text=text,
        message=(
            "The answer was cut off: it is longer than the model may write at once. "
            "Say “go on” for more of it, or raise model.max_tokens."
        ),
    )


def _limit_reached(turn: LiveTurn) -> TurnFinished | None:
    """Return the end of a turn that has no model calls left; None if it has."""
    if turn.failures_in_row >= STOP_AT:
        message = (
            f"The model made the same call {turn.failures_in_row} times in a row, and it failed in "
            "the same way each time. Say what it should do instead, or “go on” to let it try."
        )
    elif not turn.calls_left:
        message = (
            f"The turn made {plural(turn.model_calls, 'model call')}, its limit. "
            "Say “go on” to continue, or raise agent.max_turns."
        )
    else:
        return None
    return TurnFinished(Outcome.LIMIT_REACHED, message=message)
