"""What a batch of facts does to a turn: the rows to store, and the state once they are stored."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from agent_service.calls import PendingCall, PendingScript, StepState
from agent_service.events import (
    ApprovalRequested,
    ClarificationRequested,
    Compressed,
    Durable,
    Noted,
    Outcome,
    Recorded,
    TextFinished,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    UsageReported,
    preview,
)
from agent_service.facts import (
    ApprovalNeeded,
    ClarificationNeeded,
    Compacted,
    Consulted,
    Denied,
    Fact,
    ModelAnswered,
    Prompted,
    ScriptReturned,
    Switched,
    ToolDispatched,
    ToolReturned,
)
from agent_service.live_turn import LiveTurn
from agent_service.models.base import assistant_message, encoded
from agent_service.search.query import searchable, terms
from agent_service.usage import Usage

FINAL_STATES = {
    Outcome.COMPLETED: "COMPLETED",
    Outcome.FAILED: "FAILED",
    Outcome.CANCELLED: "CANCELLED",
    Outcome.LIMIT_REACHED: "LIMIT_REACHED",
    Outcome.NEEDS_REVIEW: "NEEDS_REVIEW",
}


class NewStep(Struct, frozen=True):
    """A step to insert with state INTENT."""

    kind: str
    sequence: int
    message_sequence: int
    call: PendingCall | None = None


class NewMessage(Struct, frozen=True):
    """A message to insert."""

    sequence: int
    role: str
    content: bytes
    terms: str
    """What it is found by."""
    reasoning: str = ""


class Transition(Struct):
    """Collects what a batch of facts stores; `apply` is called once that is committed."""

    turn: LiveTurn
    now: datetime
    steps: list[NewStep] = field(default_factory=list[NewStep])
    step_states: list[tuple[int, StepState]] = field(default_factory=list[tuple[int, StepState]])
    messages: list[NewMessage] = field(default_factory=list[NewMessage])
    events: list[Recorded] = field(default_factory=list[Recorded])
    approvals: list[ApprovalRequested] = field(default_factory=list[ApprovalRequested])
    compacted: Compacted | None = None
    tokens_per_byte: float = 0.0
    """Where it is another than before; else 0."""
    clarifications: list[ClarificationRequested] = field(
        default_factory=list[ClarificationRequested]
    )
    answers: list[tuple[str, Usage]] = field(default_factory=list[tuple[str, Usage]])
    """What each answer used, and which model gave it."""
    settled: list[str] = field(default_factory=list[str])
    """Reservations of the turn's budgets that are let go."""
    switched: Switched | None = None
    denied: frozenset[str] = frozenset()
    """Slash commands that are denied to the turn from now on."""
    finished: TurnFinished | None = None
    state: str = "RUNNING"
    _sequence: int = 0
    _steps: int = 0
    _message_count: int = 0
    _model_calls: int = 0
    _failures_in_row: int = 0
    _usage: Usage = field(default_factory=Usage)
    _pending: dict[str, PendingCall] = field(default_factory=dict[str, PendingCall])
    _results: dict[int, bytes] = field(default_factory=dict[int, bytes])
    _result_chars: dict[int, int] = field(default_factory=dict[int, int])
    _script: PendingScript | None = None

    def __post_init__(self) -> None:
        self._sequence = self.turn.sequence
        self._steps = self.turn.steps
        self._message_count = self.turn.message_count
        self._model_calls = self.turn.model_calls
        self._failures_in_row = self.turn.failures_in_row
        self._usage = self.turn.usage
        self._pending = dict(self.turn.pending)
        self._results = dict(self.turn.results)
        self._script = self.turn.script

    @classmethod
    def of(cls, turn: LiveTurn, facts: tuple[Fact, ...], now: datetime) -> "Transition":
        """The transition that a batch of facts makes."""
        transition = cls(turn, now)
        for fact in facts:
            transition._add(fact)
        goes_on = transition.finished is None and transition.compacted is None
        if goes_on and transition.switched is None and not transition._is_busy:
            transition._intend_model_call()
        transition.state = transition._next_state()
        return transition

    @property
    def waits_for_person(self) -> bool:
        """Whether the turn goes on only when somebody has decided or answered."""
        return bool(self.approvals or self.clarifications)

    @property
    def _is_busy(self) -> bool:
        return bool(self._pending) or self._script is not None

    @property
    def last_sequence(self) -> int:
        """Sequence of the last durable event."""
        return self._sequence

    @property
    def message_count(self) -> int:
        """Messages of the session, reserved ones included."""
        return self._message_count

    @property
    def usage(self) -> Usage:
        """What the turn used so far."""
        return self._usage

    def apply(self) -> None:
        """Bring the turn to the state that is now stored."""
        turn = self.turn
        turn.sequence = self._sequence
        turn.steps = self._steps
        turn.message_count = self._message_count
        turn.model_calls = self._model_calls
        turn.failures_in_row = self._failures_in_row
        turn.usage = self._usage
        turn.pending = self._pending
        turn.script = self._script
        turn.waits_for_person = self.waits_for_person
        turn.finished = self.finished
        turn.denied |= self.denied
        if self.switched is not None:
            turn.route, turn.model = self.switched.route, self.switched.model
        self._apply_to_prompt()
        turn.messages += [m.content for m in self.messages if m.role != "tool"]
        turn.results = self._results
        turn.result_chars |= self._result_chars
        if not self._pending:
            turn.messages += [self._results[key] for key in sorted(self._results)]
            turn.results = {}

    def _apply_to_prompt(self) -> None:
        turn, compacted = self.turn, self.compacted
        if compacted is not None:
            turn.messages, turn.compaction = list(compacted.messages), compacted.compaction
            turn.compressed_in_vain += not compacted.helped
        turn.tokens_per_byte = self.tokens_per_byte or turn.tokens_per_byte

    def _add(self, fact: Fact) -> None:
        match fact:
            case ModelAnswered():
                self._answered(fact)
            case Prompted(text):
                self._message_count += 1
                self.messages.append(_new(self._message_count, {"role": "user", "content": text}))
            case ToolDispatched(call):
                self._pending[call.key] = replace(call, state=StepState.DISPATCHED)
                self.step_states.append((call.sequence, StepState.DISPATCHED))
            case ToolReturned() | ScriptReturned():
                self._returned(fact)
            case ApprovalNeeded() | ClarificationNeeded():
                self._needed(fact)
            case Compacted():
                self._compacted(fact)
            case Consulted():
                self._count(fact.model, fact.usage, fact.reservation)
            case Switched() | Denied():
                self._from_now_on(fact)
            case TurnFinished():
                self._finished(fact)

    def _from_now_on(self, fact: Switched | Denied) -> None:
        if isinstance(fact, Switched):
            self.switched = fact
        else:
            self.denied |= fact.commands

    def _answered(self, fact: ModelAnswered) -> None:
        step, message = fact.step, fact.message
        is_first = not self._model_calls
        usage = Usage.of_call(message.usage)
        self._count(message.model, usage)
        if fact.tokens_per_byte != self.turn.tokens_per_byte:
            self.tokens_per_byte = fact.tokens_per_byte
        self._model_calls += 1
        self._failures_in_row = 0
        self.step_states.append((self._steps, StepState.DONE))
        self._message_count += 1
        said = assistant_message(message)
        self.messages.append(_new(self._message_count, said, message.reasoning))
        self._event(TextFinished(step, message.text, len(message.tool_calls)))
        self._event(UsageReported(step, usage))
        if is_first:
            self._note(self.turn.notices)
        for call in message.tool_calls:
            self._steps += 1
            self._message_count += 1
            key = f"{self.turn.id}:{self._steps}"
            pending = PendingCall(key, call, self._steps, self._message_count)
            self._pending[key] = pending
            self.steps.append(NewStep("TOOL", self._steps, self._message_count, pending))
            self._event(ToolStarted(key, call.name, call.arguments_json, step))

    def _returned(self, fact: ToolReturned | ScriptReturned) -> None:
        if isinstance(fact, ScriptReturned):
            self._script = None
        else:
            self._add_result(fact)
        state = StepState.UNCERTAIN if fact.uncertain else StepState.DONE
        self.step_states.append((fact.call.sequence, state))
        self._event(_told(fact))
        self._note(fact.notices)

    def _add_result(self, fact: ToolReturned) -> None:
        call = fact.call
        del self._pending[call.key]
        self._failures_in_row = max(self._failures_in_row, fact.failures_in_row)
        result = {"role": "tool", "tool_call_id": call.call.id, "content": fact.text}
        new = _new(call.message_sequence, result)
        self._results[call.message_sequence] = new.content
        self._result_chars[call.message_sequence] = len(fact.text)
        self.messages.append(new)

    def _needed(self, fact: ApprovalNeeded | ClarificationNeeded) -> None:
        expires_at = self.now + self.turn.approval_timeout
        key, name = fact.call.key, fact.call.call.name
        if isinstance(fact, ApprovalNeeded):
            approval = ApprovalRequested(
                f"apr_{key}", key, name, fact.subject, expires_at, fact.binding
            )
            self.approvals.append(approval)
            self._event(approval)
        else:
            clarification = ClarificationRequested(
                f"clr_{key}", key, fact.question, list(fact.choices), expires_at
            )
            self.clarifications.append(clarification)
            self._event(clarification)

    def _finished(self, fact: TurnFinished) -> None:
        if fact.text and not self._model_calls:  # said by no model, and so not yet
            self._event(TextFinished(self.turn.step, fact.text, 0))
        if not self._model_calls:
            self._note(self.turn.notices)
        self.finished = replace(fact, usage=self._usage)
        self._event(self.finished)

    def _note(self, notices: Sequence[str]) -> None:
        for text in notices:
            self._event(Noted(text))

    def _compacted(self, fact: Compacted) -> None:
        self.compacted = fact
        self._count(fact.model, fact.usage)
        if fact.compaction != self.turn.compaction:
            self._event(Compressed(fact.before_tokens, fact.after_tokens))

    def _count(self, model: str, usage: Usage, reservation: str | None = "") -> None:
        self._usage += usage
        if usage.call_count:
            self.answers.append((model, usage))
        if reservation is not None:
            self.settled.append(reservation)

    def _intend_model_call(self) -> None:
        self._steps += 1
        self.steps.append(NewStep("MODEL", self._steps, self._message_count + 1))

    def _next_state(self) -> str:
        if self.finished is not None:
            return FINAL_STATES[self.finished.outcome]
        if self.waits_for_person:
            return "WAITING_PERSON"
        return "WAITING_TOOL" if self._is_busy else "RUNNING"

    def _event(self, event: Durable) -> None:
        self._sequence += 1
        self.events.append(Recorded(self._sequence, self.now, self.turn.epoch, event))


def _new(sequence: int, message: Mapping[str, Any], reasoning: str = "") -> NewMessage:
    said = terms(searchable(message))
    return NewMessage(sequence, message["role"], encoded(message), said, reasoning)


def _told(fact: ToolReturned | ScriptReturned) -> ToolFinished:
    return ToolFinished(
        call_id=fact.call.key,
        name=fact.call.call.name,
        is_error=fact.is_error,
        exit_code=fact.exit_code,
        backend=fact.place.backend,
        duration_ms=fact.duration_ms,
        preview=preview(fact.text),
        isolation=fact.place.isolation,
        sandbox_id=fact.place.sandbox_id,
    )
