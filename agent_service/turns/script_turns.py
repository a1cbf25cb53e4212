"""The script that begins a turn: run once, it decides whether the model is called."""

import asyncio
import logging
import time
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from agent_service.records.calls import PendingCall, PendingScript
from agent_service.records.commands import ApprovalNeeded, Fact, Prompted, ScriptReturned
from agent_service.records.events import Decision, Outcome, TurnFinished
from agent_service.records.requests import ScriptMode, Unattended
from agent_service.records.sandbox import CommandUncertain
from agent_service.records.turn_state import LiveTurn
from agent_service.security.threats import Source, ThreatScanner
from agent_service.tools.base import Tool, ToolContext, ToolResult
from agent_service.tools.guards.approval import DecisionRequired
from agent_service.tools.guards.taint import fenced, notice_of_blocked, of_blocked, taint
from agent_service.tools.shell.script import ScriptArguments
from agent_service.tools.toolbox import ContextFactory, attempt
from services.errors import Reason
from services.redaction.redactor import Redactor
from services.validation import json_object

SOURCE = "the job's script"
SILENT = "[SILENT]"
WAKE = "wakeAgent"
"""The optional key of the JSON object in a script's last line."""

_UNCERTAIN = (
    "The sandbox was lost while the job's script ran, so it is not known what it has done. It was "
    "not run again."
)
_NOT_ALLOWED = (
    "The job's script was not run: a person would have to allow it, and a job has nobody to ask "
    "({subject}). Change the script, or let the job's calls wait for a decision (unattended: wait)."
)
_DECIDED = {
    Decision.DENY: "The job's script was not run: it was denied.",
    Decision.EXPIRED: (
        "The job's script was not run: nobody answered in time whether it is allowed."
    ),
}
_SHOWN = "What the job's script has printed just now:"

_log = logging.getLogger(__name__)


class Scripts(Struct, frozen=True):
    """Runs the scripts of turns."""

    tool: Tool[ScriptArguments]
    context: ContextFactory
    redactor: Redactor
    scanner: ThreatScanner

    async def run(self, turn: LiveTurn, pending: PendingScript) -> tuple[Fact, ...]:
        call, started = pending.call, time.monotonic()
        # The refusal that nobody can be asked goes to people, not to a model.
        context = replace(self.context(turn, call, _unseen), unattended=None)
        if context.decision is not None and (told := _DECIDED.get(context.decision)):
            return _not_run(call, told, Reason.APPROVAL_REQUIRED)
        try:
            result = await attempt(self.tool, ScriptArguments(command=pending.script.text), context)
        except DecisionRequired as required:
            subject = self.redactor.redact(required.subject)
            if turn.unattended in (None, Unattended.WAIT):
                return (ApprovalNeeded(call, subject, required.binding),)
            return _not_run(call, _NOT_ALLOWED.format(subject=subject), Reason.APPROVAL_REQUIRED)
        except CommandUncertain:
            return _not_run(call, _UNCERTAIN, uncertain=True)
        result = self._redacted(result)
        returned = ScriptReturned(
            call,
            "\n".join(filter(None, (result.text, result.beside))),
            is_error=result.is_error,
            exit_code=result.exit_code,
            place=context.place(),
            duration_ms=round((time.monotonic() - started) * 1000),
        )
        if result.is_error:
            return returned, _failed(result.beside or result.text)
        if pending.script.mode is ScriptMode.ONLY:
            return returned, TurnFinished(Outcome.COMPLETED, text=result.text.strip())
        wakes, printed = what_to_do(result.text)
        if not wakes:
            return returned, TurnFinished(Outcome.COMPLETED)
        prompt, notices = await self._prompt(pending.prompt, printed, context)
        return replace(returned, notices=notices), Prompted(prompt)

    def _redacted(self, result: ToolResult) -> ToolResult:
        redact = self.redactor.redact
        return replace(result, text=redact(result.text), beside=redact(result.beside))

    async def _prompt(
        self, asked: str, printed: str, context: ToolContext
    ) -> tuple[str, tuple[str, ...]]:
        """Return the prompt with the script's output as untrusted data, and warnings for people."""
        if not printed:
            return asked, ()
        if (opening := context.place().opening) is not None:
            await taint(context.state, opening)
        text, threats = await asyncio.to_thread(self.scanner.clean, printed, Source.SCRIPT)
        parts = [asked, f"{_SHOWN}\n{fenced(text, SOURCE)}"]
        notices = (notice_of_blocked(threats, SOURCE),) if threats else ()
        if threats:
            _log.warning("what looks like an attack in what a script has printed is blocked")
            parts.append(of_blocked(threats))
        return "\n\n".join(parts), notices


def what_to_do(output: str) -> tuple[bool, str]:
    """Return whether the model is called after this output, and what it is shown of it."""
    text = output.strip()
    above, _, last = text.rpartition("\n")
    order = _order(last)
    if order is not None:
        # Other keys in the line are for the model.
        return bool(order[WAKE]), above.strip() if len(order) == 1 else text
    return bool(text) and not text.upper().startswith(SILENT), text


def _order(line: str) -> dict[str, Any] | None:
    order = json_object(line) or {}
    return order if isinstance(order.get(WAKE), bool) else None


def _failed(message: str) -> TurnFinished:
    text = f"The script failed: {message}"
    return TurnFinished(Outcome.FAILED, message=text, reason=Reason.SCRIPT_FAILED)


def _not_run(
    call: PendingCall,
    message: str,
    reason: Reason = Reason.SCRIPT_FAILED,
    *,
    uncertain: bool = False,
) -> tuple[Fact, ...]:
    returned = ScriptReturned(call, message, is_error=True, uncertain=uncertain)
    return returned, TurnFinished(Outcome.FAILED, message=message, reason=reason)


def _unseen(_text: str) -> None:
    """Progress of scripts is not shown."""
