"""Judges commands before they run: what is refused, what a person is asked, what simply runs."""

import asyncio
import hashlib
import json
import logging
from collections.abc import Callable
from fnmatch import fnmatchcase

from msgspec import Struct, field

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
"""A longer command is judged in a thread, so that nobody else waits for it."""
DISPOSABLE = frozenset({"docker", "bubblewrap", "singularity", "modal", "kubernetes"})
"""Backends whose sandboxes can be lost: what stays inside of them harms nothing that lasts."""


class CommandPolicy(Struct, frozen=True):
    """What is done with commands of each class."""

    asks: bool = True
    """Whether a person is asked; what is never run is refused all the same."""
    asks_in_sandboxes: bool = False
    """Whether also where a disposable sandbox holds all that the command can do."""
    asks_before_sending: bool = False
    """Whether also before something is sent elsewhere once strangers' texts were read."""
    own: tuple[str, ...] = ()
    """The agent's own home, as paths name it."""
    denied: tuple[str, ...] = ()
    """Patterns of commands that are refused, with `*` and `?`."""
    opinion: SecondOpinion | None = None
    """Who may allow what is dangerous before a person is asked."""
    redactor: Redactor = field(default_factory=Redactor)
    """Takes secrets out of what a person or a model is shown."""
    blocked: Blocked | None = None
    """Counts what is never run."""


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
        """Run the inner tool if its command may run."""
        typed = self._typed(arguments)
        if typed is not None:
            before = await PriorInput.of(typed, context.key, context.state)
            typed = before.continued(typed)
            verdict = await self._classify(typed)
            await self._check(typed, verdict, context)
            await before.keep(typed, verdict, context.key, context.state)
        return await self._inner.run(arguments, context)

    async def _classify(self, typed: ShellInput) -> Verdict:
        if len(typed.command) <= LONG_CHARS:
            return self._classifier.classify(typed.command, typed.folder)
        # By one of its own: each is for one thread at a time.
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
            # Kept before it runs: whoever makes this call again must not be told otherwise.
            await context.records.allow(self.name, binding, "model")
            _log.info("a model has allowed a command", extra={"call": context.key})
            return
        check_decision(context.decision, context.decided_on, binding)

    async def _is_harmless(self, shown: str, verdict: Verdict, context: ToolContext) -> bool:
        if self._policy.opinion is None or verdict.kind is not CommandClass.DANGEROUS:
            return False
        if verdict.is_exhausted or await self._would_send(verdict, context):
            return False
        # What strangers have said may have led to this command, and be meant for its judge, too.
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
        if verdict.leaves_sandbox or self._policy.asks_in_sandboxes:
            return True
        return (await context.sandbox()).backend not in DISPOSABLE

    async def _would_send(self, verdict: Verdict, context: ToolContext) -> bool:
        """Whether something strangers may have asked for would leave the sandbox."""
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
    """What an allowance is bound to: every program that runs with its arguments, and the folder.

    A command that depends on what it does not say itself is bound to its very text, too.
    """
    text = "" if verdict.certain else " ".join(typed.command.split())
    said = json.dumps([verdict.normalised, typed.place, text])
    return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()


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
