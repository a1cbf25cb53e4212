"""Lets a person decide before a tool runs."""

import hashlib
import json
from collections.abc import Callable
from typing import Generic, TypeVar

from agent_service.calls import PendingCall
from agent_service.events import Decision
from agent_service.tools.base import (
    Effect,
    Tool,
    ToolArguments,
    ToolContext,
    ToolFailed,
    ToolResult,
)

A = TypeVar("A", bound=ToolArguments)

_DENIED = (
    "The user denied this call. Do not try the same in another form; "
    "say what you wanted to do, and ask how to go on."
)
NOBODY_TO_ASK = (
    "A person would have to allow this call, and nobody can be asked here, so it was not run. Do "
    "not try the same in another form; go on without it, and say at the end what was not done."
)
HALTED = "A person would have to allow this call, so it was not run, and the work ended here."
_NO_ANSWER = "Nobody answered in time whether this call is allowed, so it was not run."


class ApprovalRequired(Exception):
    """The call may not run before a person has decided on `subject`."""

    def __init__(self, subject: str, binding: str, call: PendingCall | None = None) -> None:
        """An allowance for longer is bound to `binding`; `call` is one that the call has made
        itself.
        """
        super().__init__(subject)
        self.subject = subject
        self.binding = binding
        self.call = call


def check_decision(decision: Decision) -> None:
    """Fails with ToolFailed unless the decision allows the call."""
    match decision:
        case Decision.DENY | Decision.ANSWERED:
            raise ToolFailed(_DENIED)
        case Decision.EXPIRED:
            raise ToolFailed(_NO_ANSWER)
        case Decision.ONCE | Decision.SESSION | Decision.ALWAYS:
            return


class RequireApproval(Generic[A]):
    """A tool whose every call waits for a person."""

    def __init__(self, inner: Tool[A], subject: Callable[[A], str]) -> None:
        self.name = inner.name
        self.toolset = inner.toolset
        self.arguments = inner.arguments
        self._inner = inner
        self._subject = subject

    def effect(self, arguments: A) -> Effect:
        """The inner tool's."""
        return self._inner.effect(arguments)

    def writes(self, arguments: A) -> frozenset[str]:
        """The inner tool's."""
        return self._inner.writes(arguments)

    async def run(self, arguments: A, context: ToolContext) -> ToolResult:
        """Run the inner tool once a person has allowed it, or has allowed the very same before."""
        binding = _binding_of(arguments)
        if context.decision is not None:
            check_decision(context.decision)
        elif not await context.allowances.holds(self.name, binding):
            raise ApprovalRequired(self._subject(arguments), binding)
        return await self._inner.run(arguments, context)


def _binding_of(arguments: ToolArguments) -> str:
    """What an allowance is bound to: all arguments, as one left out could say anything."""
    said = json.dumps(arguments.model_dump(mode="json"), sort_keys=True)
    return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()
