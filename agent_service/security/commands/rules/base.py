"""What a rule is."""

from collections.abc import Callable

from msgspec import Struct

from agent_service.security.commands.invocation import Invocation
from agent_service.security.commands.scene import Reach


class Rule(Struct, frozen=True):
    """Says that some calls of some programs belong to a family."""

    family: str
    programs: str
    """Their names, with spaces between."""
    when: Callable[[Invocation], bool]
    example: str
    """A command that it finds; a test runs every one."""
    reach: Reach | None = None
    """Where it differs from the family's."""


def always(invocation: Invocation) -> bool:
    """Whatever the arguments are."""
    return True


def asks_only(invocation: Invocation) -> bool:
    """Whether it only shows help or its version, or says what it would do."""
    return invocation.long("help", "version", "dry-run", "usage", "simulate", "no-act") or (
        invocation.args in (("-h",), ("-V",), ("-v",), ("help",), ("-?",))
    )


def unless_asking(when: Callable[[Invocation], bool]) -> Callable[[Invocation], bool]:
    """The condition, where the program does more than to show help."""
    return lambda invocation: not asks_only(invocation) and when(invocation)


def verb(*words: str, skip: str = "") -> Callable[[Invocation], bool]:
    """Whether the subcommand is one of these, each of one or two words."""
    valued = skip.split()

    def found(invocation: Invocation) -> bool:
        operands = invocation.without_options(valued)
        return bool(operands) and (operands[0] in words or " ".join(operands[:2]) in words)

    return unless_asking(found)


def subcommand(invocation: Invocation, *valued: str) -> str:
    """The first operand."""
    operands = invocation.without_options(valued)
    return operands[0] if operands else ""
