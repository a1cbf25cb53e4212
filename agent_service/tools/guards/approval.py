"""Asks a person before a tool runs."""

import hashlib
import json

from agent_service.records.calls import PendingCall
from agent_service.records.events import Decision
from agent_service.tools.base import ToolArguments, ToolContext, ToolFailed

_DENIED = (
    "The user denied this call. Do not try it in another form. Say what you wanted to do, and ask "
    "how to continue."
)
NOBODY_TO_ASK = (
    "This call needs a person's approval, and nobody can be asked here, so it was not run. Do not "
    "try it in another form. Continue without it, and say at the end what was not done, and that "
    "the user can allow it in a conversation (`hermes chat`), where “always” allows it for good."
)
HALTED = "This call needs a person's approval, so it was not run, and the work ended here."
_CHANGED = (
    "What this call would do has changed since the user approved it, so it was not run. If it is "
    "still right, make the call again, and the user is asked again."
)
_NAME_CHARS = 12
_NO_ANSWER = "Nobody approved this call in time, so it was not run."


class DecisionRequired(Exception):
    """The call cannot run before a person has approved `subject`, or has answered it."""

    def __init__(
        self,
        subject: str,
        binding: str = "",
        call: PendingCall | None = None,
        choices: tuple[str, ...] = (),
    ) -> None:
        """A lasting approval is bound to `binding`; `call` is an inner call of the call."""
        super().__init__(subject)
        self.subject = subject
        self.binding = binding
        self.call = call
        self.choices = choices


def check_not_denied(decision: Decision | None) -> None:
    """Raise ToolFailed if a person did not approve, even if approval is no longer needed."""
    match decision:
        case Decision.DENY | Decision.ANSWERED:
            raise ToolFailed(_DENIED)
        case Decision.NOBODY:
            raise ToolFailed(NOBODY_TO_ASK)
        case Decision.EXPIRED:
            raise ToolFailed(_NO_ANSWER)
        case Decision.ONCE | Decision.SESSION | Decision.ALWAYS | None:
            pass


def check_decision(decision: Decision, decided_on: str, binding: str) -> None:
    """Raise ToolFailed unless the decision approves exactly this call."""
    check_not_denied(decision)
    if decided_on != binding:
        raise ToolFailed(_CHANGED)


async def check_allowed(tool: str, subject: str, binding: str, context: ToolContext) -> None:
    """Return if a person has approved this call, now or before; else raise DecisionRequired."""
    if context.decision is None:
        if not await context.records.is_allowed(tool, binding):
            raise DecisionRequired(subject, binding)
        return
    check_decision(context.decision, context.decided_on, binding)


async def check_each_allowed(tool: str, subject: str, binding: str, context: ToolContext) -> None:
    """The same for a call that may need several approvals; each is asked for by itself."""
    assert context.inner is not None, "a call of the model has inner calls"
    question = context.inner.question(binding[:_NAME_CHARS])
    decided = context.inner.decided(question)
    if decided.decision is not None:
        check_decision(decided.decision, decided.binding, binding)
    elif not await context.records.is_allowed(tool, binding):
        raise DecisionRequired(subject, binding, question)


def binding_of(arguments: ToolArguments, *digests: str) -> str:
    """What an approval is bound to: all arguments, and the content of the files they name."""
    document = json.dumps(arguments.model_dump(mode="json"), sort_keys=True)
    document = " ".join((document, *digests))
    return hashlib.sha256(document.encode("utf-8", "surrogatepass")).hexdigest()
