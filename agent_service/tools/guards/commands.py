"""Judges commands before they run: refused, needing approval, or allowed."""

import asyncio
import hashlib
import json
import logging
from collections.abc import Callable
from fnmatch import fnmatchcase

from msgspec import Struct, field

from agent_service.records.requests import BATCH
from agent_service.security.commands.classifier import CommandClassifier
from agent_service.security.commands.families import FAMILIES, CommandClass, Verdict
from agent_service.security.threats import Blocked, Source
from agent_service.tools.base import A, Tool, ToolContext, ToolFailed, ToolResult, Wrapper
from agent_service.tools.guards.approval import DecisionRequired, check_decision, check_not_denied
from agent_service.tools.guards.second_opinion import SecondOpinion
from agent_service.tools.guards.shell_input import PriorInput, ShellInput
from agent_service.tools.guards.taint import has_read_strangers, sources
from services.redaction.redactor import Redactor

_log = logging.getLogger(__name__)

_NOT_JUDGED = (
    "This command was not run. It is too long or too complex to check, and nobody is asked to "
    "approve it (approvals.mode: off). Write long content with write_file, and split the rest "
    "into shorter commands."
)
LONG_CHARS = 2_000
"""Longer commands are judged in a thread to keep the event loop free."""
DISPOSABLE = frozenset({"docker", "bubblewrap", "singularity", "modal", "kubernetes"})
"""Backends with disposable sandboxes, where commands can do no lasting harm."""


class CommandPolicy(Struct, frozen=True):
    """What happens to commands of each class."""

    asks: bool = True
    """Whether a person is asked; forbidden commands are refused in any case."""
    asks_in_sandboxes: bool = False
    """Whether to ask even if a disposable sandbox contains all effects."""
    asks_before_sending: bool = False
    """Whether to ask before a tainted session sends something elsewhere."""
    own: tuple[str, ...] = ()
    """The agent's home, as paths name it."""
    denied: tuple[str, ...] = ()
    """Patterns of refused commands, with `*` and `?`."""
    opinion: SecondOpinion | None = None
    """A model that may allow dangerous commands before a person is asked."""
    redactor: Redactor = field(default_factory=Redactor)
    """Removes secrets from what people and models are shown."""
    blocked: Blocked | None = None


class JudgeCommands(Wrapper[A]):
    """A tool whose calls give text to a shell."""

    def __init__(
        self, inner: Tool[A], typed: Callable[[A], ShellInput | None], policy: CommandPolicy
    ) -> None:
        super().__init__(inner)
        self._typed = typed
        self._policy = policy
        self._classifier = CommandClassifier(policy.own)

    async def run(self, arguments: A, context: ToolContext) -> ToolResult:
        typed = self._typed(arguments)
        if typed is not None:
            before = await PriorInput.find(typed, context.key, context.state)
            typed = before.continued(typed)
            verdict = await self._classify(typed)
            await self._check(typed, verdict, context)
            await before.keep(typed, verdict, context.key, context.state)
        return await self._inner.run(arguments, context)

    async def _classify(self, typed: ShellInput) -> Verdict:
        if len(typed.command) <= LONG_CHARS:
            return self._classifier.classify(typed.command, typed.folder)
        # Classifiers are not thread-safe, so the thread gets its own.
        apart = CommandClassifier(self._policy.own)
        return await asyncio.to_thread(apart.classify, typed.command, typed.folder)

    async def _check(self, typed: ShellInput, verdict: Verdict, context: ToolContext) -> None:
        if verdict.kind is CommandClass.HARDLINE:
            if self._policy.blocked is not None:
                self._policy.blocked(Source.COMMAND, _hardline(verdict))
            raise ToolFailed(refusal(verdict))
        if pattern := _denied(self._policy.denied, typed.command, verdict):
            raise ToolFailed(
                f"This command was not run: the user's settings forbid commands like {pattern!r} "
                "(approvals.deny). Do not try it in another form."
            )
        if verdict.is_exhausted and not self._policy.asks:
            raise ToolFailed(_NOT_JUDGED)
        if not await self._needs_person(typed, verdict, context):
            check_not_denied(context.decision)
            return
        binding = binding_of(typed, verdict)
        if context.decision is None:
            if await context.records.is_allowed(self.name, binding):
                return
            shown = self._policy.redactor.redact((typed.shown or typed.command).rstrip("\n"))
            if not await self._is_harmless(shown, verdict, context):
                raise DecisionRequired(shown, binding)
            # Stored before it runs, so that a repeated call gets the same decision.
            await context.records.allow(self.name, binding, "model")
            _log.info("a model has allowed a command", extra={"call": context.key})
            return
        check_decision(context.decision, context.decided_on, binding)

    async def _is_harmless(self, shown: str, verdict: Verdict, context: ToolContext) -> bool:
        if self._policy.opinion is None or verdict.kind is not CommandClass.DANGEROUS:
            return False
        if verdict.is_exhausted or await self._would_send(verdict, context):
            return False
        # Strangers' text may have led to this command and may try to mislead the model.
        if await has_read_strangers(context.state):
            return False
        return await self._policy.opinion.is_harmless(context.ask, shown, verdict.families)

    async def _needs_person(
        self, typed: ShellInput, verdict: Verdict, context: ToolContext
    ) -> bool:
        if verdict.is_exhausted or await self._would_send(verdict, context):
            return True
        if not self._policy.asks or verdict.kind is CommandClass.SAFE:
            return False
        if verdict.kind is CommandClass.UNPARSEABLE:
            return not typed.process
        # The files of an item of a batch end with its sandbox.
        is_item = context.caller.origin.get("platform") == BATCH
        leaves = verdict.leaves_sandbox and not (is_item and verdict.reaches_only_files)
        if leaves or self._policy.asks_in_sandboxes:
            return True
        return (await context.sandbox()).backend not in DISPOSABLE

    async def _would_send(self, verdict: Verdict, context: ToolContext) -> bool:
        """Whether the command would send out something that strangers may have asked for."""
        if not self._policy.asks_before_sending or not await sources(context.state):
            return False
        if not (verdict.sends or verdict.addresses) or not (await context.sandbox()).has_network:
            return False
        if verdict.sends:
            return True
        if not await has_read_strangers(context.state):
            return False
        return bool(await context.records.unknown_links(verdict.addresses))


def binding_of(typed: ShellInput, verdict: Verdict) -> str:
    """What an approval is bound to: the programs with their arguments, and the folder.

    It includes the exact text if the command depends on anything else.
    """
    text = "" if verdict.certain else " ".join(typed.command.split())
    document = json.dumps([verdict.normalised, typed.place, text])
    return hashlib.sha256(document.encode("utf-8", "surrogatepass")).hexdigest()


def _denied(patterns: tuple[str, ...], command: str, verdict: Verdict) -> str:
    texts = [command, *(" ".join(argv) for argv in verdict.normalised)]
    for pattern in patterns:
        if any(fnmatchcase(text, pattern) for text in texts):
            return pattern
    return ""


def refusal(verdict: Verdict) -> str:
    """Why a command is never run."""
    reasons = [FAMILIES[name].about for name in _hardline(verdict)]
    return (
        f"This command was refused and not run: it {', and '.join(reasons)}. No setting and no "
        "person can allow it. Do not try it in another form. Say what you wanted to do."
    )


def _hardline(verdict: Verdict) -> list[str]:
    return [name for name in verdict.families if FAMILIES[name].hardline]
