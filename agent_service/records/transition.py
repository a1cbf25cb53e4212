"""The effect of a batch of facts on a turn: rows to store, and the state afterwards."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from agent_service.records.calls import PendingCall, StepState
from agent_service.records.commands import (
    ApprovalNeeded,
    Consulted,
    ContextCompressed,
    Denied,
    Fact,
    FilesRead,
    ModelAnswered,
    Prompted,
    Recalled,
    ScriptReturned,
    Switched,
    ToolDispatched,
    ToolReturned,
)
from agent_service.records.events import (
    CLARIFY,
    ApprovalRequested,
    Compressed,
    Durable,
    Noted,
    Recorded,
    TextFinished,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    UsageReported,
    preview,
)
from agent_service.records.model import assistant_message, encoded
from agent_service.records.search_query import searchable, terms, text_of
from agent_service.records.sent_history import user_message
from agent_service.records.turn_state import LiveTurn
from agent_service.records.usage import Usage


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
    reasoning: str = ""
    logprobs: str = ""


_SHARED = frozenset({"has_reserved", "kept"})
"""Fields of a turn that others change while a transition is stored."""


class Transition(Struct):
    """Collects what a batch of facts stores; call `apply` once that is committed."""

    turn: LiveTurn
    now: datetime
    after: LiveTurn
    steps: list[NewStep] = field(default_factory=list[NewStep])
    step_states: list[tuple[int, StepState]] = field(default_factory=list[tuple[int, StepState]])
    messages: list[NewMessage] = field(default_factory=list[NewMessage])
    recalled: bytes | None = None
    events: list[Recorded] = field(default_factory=list[Recorded])
    approvals: list[ApprovalRequested] = field(default_factory=list[ApprovalRequested])
    compressed: ContextCompressed | None = None
    answers: list[tuple[str, Usage]] = field(default_factory=list[tuple[str, Usage]])
    settled: list[str] = field(default_factory=list[str])
    state: str = "RUNNING"

    @classmethod
    def from_facts(cls, turn: LiveTurn, facts: tuple[Fact, ...], now: datetime) -> "Transition":
        copied = {
            name: dict(getattr(turn, name)) for name in ("pending", "results", "result_chars")
        }
        transition = cls(turn, now, replace(turn, waits_for_person=False, **copied))
        after = transition.after
        for fact in facts:
            transition._add(fact)
        goes_on = after.finished is None and transition.compressed is None
        is_same_call = any(isinstance(fact, Switched | Recalled) for fact in facts)
        if goes_on and not is_same_call and not after.under_way and not after.unread:
            transition._intend_model_call()
        transition.state = transition._next_state()
        transition._send()
        return transition

    def apply(self) -> None:
        for name in self.turn.__struct_fields__:
            if name not in _SHARED:
                setattr(self.turn, name, getattr(self.after, name))

    def _send(self) -> None:
        after = self.after
        after.messages = [*after.messages, *(m.content for m in self.messages if m.role != "tool")]
        if not after.pending:
            after.messages += [after.results[key] for key in sorted(after.results)]
            after.results = {}

    def _add(self, fact: Fact) -> None:
        match fact:
            case ModelAnswered():
                self._answered(fact)
            case Prompted() | FilesRead():
                self.after.message_count += 1
                self.messages.append(new_message(self.after.message_count, self._said(fact)))
            case ToolDispatched(call):
                self.after.pending[call.key] = replace(call, state=StepState.DISPATCHED)
                self.step_states.append((call.sequence, StepState.DISPATCHED))
            case ToolReturned() | ScriptReturned():
                self._returned(fact)
            case ApprovalNeeded():
                self._needed(fact)
            case ContextCompressed():
                self._compressed(fact)
            case Consulted():
                self._count(fact.model, fact.usage, fact.reservation)
            case Switched() | Denied() | Recalled():
                self._from_now_on(fact)
            case TurnFinished():
                self._finished(fact)

    def _said(self, fact: Prompted | FilesRead) -> dict[str, Any]:
        if isinstance(fact, FilesRead):
            self.after.unread = False
            self.step_states.append((1, StepState.DONE))
            self._note(fact.notices)
            return user_message(fact.content, self.now)
        if self.turn.script is not None:
            return user_message(fact.text, self.now)
        return {"role": "user", "content": fact.text}

    def _from_now_on(self, fact: Switched | Denied | Recalled) -> None:
        if isinstance(fact, Recalled):
            self.recalled = fact.message
            self.after.messages = [*self.after.messages[:-1], fact.message]
            return
        request = self.after.request
        is_switched = isinstance(fact, Switched)
        self.after.request = (
            replace(request, switched=fact) if is_switched else request.deny(fact.commands)
        )

    def _answered(self, fact: ModelAnswered) -> None:
        step, message = fact.step, fact.message
        is_first = not self.after.model_calls
        usage = message.used
        self.after.tokens_per_byte = fact.tokens_per_byte or self.after.tokens_per_byte
        self.after.model_calls += 1
        self.after.failures_in_row = 0
        self.step_states.append((self.after.steps, StepState.DONE))
        self.after.message_count += 1
        said = assistant_message(message)
        new = new_message(self.after.message_count, said, message.reasoning, message.logprobs)
        self.messages.append(new)
        self._event(TextFinished(step, message.text, len(message.tool_calls)))
        if not self.turn.request.is_command:  # no model has answered a command
            self._count(message.model, usage)
            self._event(UsageReported(step, usage, fact.window_tokens))
        if is_first:
            self._note(self.turn.notices)
        for call in message.tool_calls:
            self.after.steps += 1
            self.after.message_count += 1
            key = f"{self.turn.id}:{self.after.steps}"
            pending = PendingCall(key, call, self.after.steps, self.after.message_count)
            self.after.pending[key] = pending
            self.steps.append(NewStep("TOOL", self.after.steps, self.after.message_count, pending))
            self._event(ToolStarted(key, call.name, call.arguments_json, step))

    def _returned(self, fact: ToolReturned | ScriptReturned) -> None:
        if isinstance(fact, ScriptReturned):
            self.after.script = None
        else:
            self._add_result(fact)
        state = StepState.UNCERTAIN if fact.uncertain else StepState.DONE
        self.step_states.append((fact.call.sequence, state))
        self._event(_finished_event(fact))
        self._note(fact.notices)

    def _add_result(self, fact: ToolReturned) -> None:
        call = fact.call
        del self.after.pending[call.key]
        self.after.failures_in_row = max(self.after.failures_in_row, fact.failures_in_row)
        text = [{"type": "text", "text": fact.text}]
        content = [*text, *fact.parts] if fact.parts else fact.text
        result = {"role": "tool", "tool_call_id": call.call.id, "content": content}
        new = new_message(call.message_sequence, result)
        self.after.results[call.message_sequence] = new.content
        self.after.result_chars[call.message_sequence] = len(text_of(content))
        self.messages.append(new)

    def _needed(self, fact: ApprovalNeeded) -> None:
        key, tool = fact.call.key, fact.call.call.name
        self.after.waits_for_person = True
        # It asks before it takes effect, so it begins anew after the decision.
        self.step_states.append((fact.call.sequence, StepState.INTENT))
        asked = ApprovalRequested(
            approval_id=f"{'clr' if tool == CLARIFY else 'apr'}_{key}",
            call_id=key,
            tool=tool,
            subject=fact.subject,
            expires_at=self.now + self.turn.approval_timeout,
            binding=fact.binding,
            choices=fact.choices,
        )
        self.approvals.append(asked)
        self._event(asked)

    def _finished(self, fact: TurnFinished) -> None:
        if fact.text and not self.after.model_calls:  # not written by a model, so not stored yet
            self._event(TextFinished(self.turn.step, fact.text, 0))
        if not self.after.model_calls:
            self._note(self.turn.notices)
        self.after.finished = replace(fact, usage=self.after.usage)
        self._event(self.after.finished)

    def _note(self, notices: Sequence[str]) -> None:
        for text in notices:
            self._event(Noted(text))

    def _compressed(self, fact: ContextCompressed) -> None:
        self.compressed, after = fact, self.after
        after.messages, after.compression = list(fact.messages), fact.compression
        after.compressed_in_vain += not fact.helped
        self._count(fact.model, fact.usage)
        if fact.compression != self.turn.compression:
            self._event(Compressed(fact.before_tokens, fact.after_tokens))

    def _count(self, model: str, usage: Usage, reservation: str | None = "") -> None:
        self.after.usage += usage
        if usage.call_count:
            self.answers.append((model, usage))
        if reservation is not None:
            self.settled.append(reservation)

    def _intend_model_call(self) -> None:
        self.after.steps += 1
        self.steps.append(NewStep("MODEL", self.after.steps, self.after.message_count + 1))

    def _next_state(self) -> str:
        if self.after.finished is not None:
            return self.after.finished.outcome.name
        if self.after.waits_for_person:
            return "WAITING_PERSON"
        return "WAITING_TOOL" if self.after.under_way else "RUNNING"

    def _event(self, event: Durable) -> None:
        self.after.sequence += 1
        self.events.append(Recorded(self.after.sequence, self.now, self.turn.epoch, event))


def new_message(
    sequence: int, message: Mapping[str, Any], reasoning: str = "", logprobs: str = ""
) -> NewMessage:
    """Return a message to insert."""
    said = terms(searchable(message))
    return NewMessage(sequence, message["role"], encoded(message), said, reasoning, logprobs)


def _finished_event(fact: ToolReturned | ScriptReturned) -> ToolFinished:
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
